"""Method CE+CL, a baseline of LaCon: ConSERT's joint training on the dropout views of SimCSE.

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

    LaCon names the sources but no settings. α, τ and the contrasted embedding are those of
    ConSERT's code. That code adds the two directions of NT-Xent; here they are averaged, so its
    0.15 is 0.3 here. LaCon does not state whether cross-entropy reads one view or both; here it
    averages both. Both views have the normal dropout probability, as in SimCSE.

    Attributes:
        tau: Temperature τ of the contrast; not stated in the paper; ConSERT's code has 0.1.
        alpha: α, the weight of the contrast; not stated in the paper; ConSERT's code has 0.15 for
            either direction.
        pooling: Input of the linear layer, as in `ce`; not stated in the paper.
        contrast_pooling: Contrasted embedding: the mean over tokens (ConSERT), the first token's
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
        """Raise SclsearchError if the pooling needs a pretrained pooler that the encoder lacks."""
        encoder.check_pooling(self.contrast_pooling, "contrast_pooling")
        return self._cross_entropy.check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return a new classification head."""
        return self._cross_entropy.new_modules(encoder, classes)

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the one stage, joint training."""
        rates = (training.dropout, training.dropout)
        return (Stage("joint", training, self.terms, self.new_modules, lambda _update: rates),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss terms `ce` and `nt_xent`."""
        poolings = encoder_pooling(self.pooling), self.contrast_pooling
        pooled, contrasted = model.embeddings(batch, *poolings)  # [2 * B, d] each
        logits = model.new_modules["head"](pooled, batch.rates[0])  # [2 * B, C]
        a, b = contrasted.chunk(2)
        return {
            "ce": prediction_loss(logits, batch.view_y, model.class_weights),
            "nt_xent": self.alpha * nt_xent(a, b, tau=self.tau),
        }

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores, `[B, C]`."""
        return self._cross_entropy.scores(model, batch)

    @property
    def _cross_entropy(self) -> CE:
        return CE(pooling=self.pooling)
