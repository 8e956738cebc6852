"""Fine-tuning on dropout views, the augmented baseline of SupCL-Seq's Table 2.

Sedghamiz et al., 2021, section 3.2.1, https://arxiv.org/abs/2109.07424.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import MinLen
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Rate, Stage, Terms, Training
from sclsearch.methods.ce import CE, Pooling, encoder_pooling
from sclsearch.methods.supcl_seq import SupCLSeq
from sclsearch.objectives import prediction_loss


@dataclass(frozen=True, slots=True)
class DropoutAug:
    """SupCL-Seq's augmented baseline: cross-entropy, or squared error, averaged over dropout views.

    Training is that of SupCL-Seq's appendix A, to which section 3.2.1 refers. Whether the
    ordinary view is counted besides the listed ones is not said; here it is not. The dropout of
    the head goes with its view, which the paper does not say either.

    Attributes:
        dropouts: Dropout rate of each view; the paper's lists have 2 to 5, (0, 0.1, 0.2) on CoLA.
        pooling: What the linear layer reads, as in `ce`; BERT, which the paper fine-tunes, has the
            pretrained pooler's output.
    """

    protocol: ClassVar[str] = SupCLSeq.protocol
    few_shot: ClassVar[str] = SupCLSeq.few_shot
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = SupCLSeq.training

    dropouts: Annotated[tuple[Rate, ...], MinLen(2)] = (0.0, 0.1, 0.2)
    pooling: Pooling = "cls_pooled"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raises SclsearchError without a pretrained pooler or dropout rates by view."""
        encoder.check_per_row_dropout("dropouts")
        return self._one_view.check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Returns a fresh head."""
        return self._one_view.new_modules(encoder, classes)

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Returns one stage."""
        return (
            Stage(
                "fine-tuning", training, self.terms, self.new_modules, lambda _update: self.dropouts
            ),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Returns `ce`, the mean over all views."""
        z = model.embed(batch, encoder_pooling(self.pooling))  # [V * B, d]
        views = zip(z.chunk(len(batch.rates)), batch.rates, strict=True)
        scores = torch.cat([model.new_modules["head"](view, rate) for view, rate in views])
        return {"ce": prediction_loss(scores, batch.view_y, model.class_weights)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Returns `[B, C]`, or `[B]` in regression."""
        return self._one_view.scores(model, batch)

    @property
    def _one_view(self) -> CE:
        return CE(pooling=self.pooling)
