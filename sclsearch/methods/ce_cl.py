"""CE+CL, a baseline of LaCon: ConSERT's joint training on the dropout views of SimCSE.

LaCon: Zhang et al., 2022, https://arxiv.org/abs/2205.10227. ConSERT: Yan et al., 2021,
https://arxiv.org/abs/2105.11741. SimCSE: Gao et al., 2021, https://arxiv.org/abs/2104.08821.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.ce import CE, Pooling, encoder_pooling
from sclsearch.objectives import nt_xent, prediction_loss


@dataclass(frozen=True, slots=True)
class CECL:
    """CE+CL of LaCon: cross-entropy and contrast of two dropout views, L_CE + α L_NT-Xent.

    LaCon gives the sources and no settings: α, τ and what is contrasted are those of ConSERT's
    code. That code adds up the two directions of NT-Xent, which are averaged here, so its 0.15 is
    0.3 here. Whether cross-entropy sees one view or both is not said; here it is averaged over
    both. Both have the ordinary dropout, as in SimCSE.

    Attributes:
        tau: Temperature τ of the contrast; not stated in the paper; ConSERT's code has 0.1.
        alpha: α, the weight of the contrast; not stated in the paper; ConSERT's code has 0.15 for
            either direction.
        pooling: What the linear layer reads, as in `ce`; not stated in the paper.
        contrast_pooling: What is contrasted: the mean over tokens (ConSERT), the first token's
            last state, or the pretrained pooler's output.
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"
    regression: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = MappingProxyType({})

    tau: Annotated[float, Gt(0)] = 0.1
    alpha: Annotated[float, Ge(0)] = 0.3
    pooling: Pooling = "head_hidden"
    contrast_pooling: Literal["mean", "cls_raw", "cls_pooled"] = "mean"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raises SclsearchError if the encoder has no pretrained pooler and one is asked for."""
        encoder.check_pooling(self.contrast_pooling, "contrast_pooling")
        return self._cross_entropy.check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Returns a fresh head."""
        return self._cross_entropy.new_modules(encoder, classes)

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Returns one stage."""
        rates = (training.dropout, training.dropout)
        return (Stage("joint", training, self.terms, self.new_modules, lambda _update: rates),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Returns `ce` and `nt_xent`."""
        poolings = encoder_pooling(self.pooling), self.contrast_pooling
        pooled, contrasted = model.embeddings(batch, *poolings)  # [2 * B, d] each
        logits = model.new_modules["head"](pooled, batch.rates[0])  # [2 * B, C]
        a, b = contrasted.chunk(2)
        return {
            "ce": prediction_loss(logits, batch.view_y, model.class_weights),
            "nt_xent": self.alpha * nt_xent(a, b, tau=self.tau),
        }

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Returns `[B, C]`."""
        return self._cross_entropy.scores(model, batch)

    @property
    def _cross_entropy(self) -> CE:
        return CE(pooling=self.pooling)
