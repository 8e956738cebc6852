"""Fine-tuning on dropout views, the augmented baseline in Table 2 of SupCL-Seq.

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

    Training follows SupCL-Seq's appendix A, to which section 3.2.1 refers. The paper does not state
    whether a view at the normal dropout is added to the listed ones; here it is not. The head has
    the dropout of its view, which the paper does not state either.

    Attributes:
        dropouts: Dropout probability of each view; the paper's lists have 2 to 5 entries, on CoLA
            (0, 0.1, 0.2).
        pooling: Input of the linear layer, as in `ce`; the paper fine-tunes BERT, which has the
            pretrained pooler's output.
    """

    protocol: ClassVar[str] = SupCLSeq.protocol
    few_shot: ClassVar[str] = SupCLSeq.few_shot
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = SupCLSeq.training

    dropouts: Annotated[tuple[Rate, ...], MinLen(2)] = (0.0, 0.1, 0.2)
    pooling: Pooling = "cls_pooled"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError if the encoder lacks a needed pooler or per-row dropout."""
        encoder.check_per_row_dropout("dropouts")
        return self._one_view.check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return a new classification head."""
        return self._one_view.new_modules(encoder, classes)

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the one stage, fine-tuning."""
        return (
            Stage(
                "fine-tuning", training, self.terms, self.new_modules, lambda _update: self.dropouts
            ),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss term `ce`, the mean over all views."""
        z = model.embed(batch, encoder_pooling(self.pooling))  # [V * B, d]
        views = zip(z.chunk(len(batch.rates)), batch.rates, strict=True)
        scores = torch.cat([model.new_modules["head"](view, rate) for view, rate in views])
        return {"ce": prediction_loss(scores, batch.view_y, model.class_weights)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression."""
        return self._one_view.scores(model, batch)

    @property
    def _one_view(self) -> CE:
        return CE(pooling=self.pooling)
