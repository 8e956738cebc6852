"""Method SimCSE with a linear probe, the self-supervised comparison in Table 3 of SupCL-Seq.

SupCL-Seq: Sedghamiz et al., 2021, https://arxiv.org/abs/2109.07424. SimCSE: Gao et al., 2021,
https://arxiv.org/abs/2104.08821.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Lt, MinLen
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Rate, Stage, Terms, Training
from sclsearch.methods.supcl_seq import SupCLSeq


@dataclass(frozen=True, slots=True)
class SimCSE:
    """Contrast of dropout views without labels (SimCSE), then a linear probe as in SupCL-Seq.

    The loss is Eq. (1) of SupCL-Seq, which is its Eq. (2) with each text as a separate class. With
    two views it is NT-Xent; with more it is the mean over the other views of the text. It is
    averaged over anchors where the paper prints a sum. SimCSE's MLP on the embedding is omitted, as
    in SupCL-Seq. Only the probe reads labels.

    Attributes:
        tau: Temperature τ; not stated for the comparison, 0.05 in both papers.
        dropouts: Dropout probability of each view; not stated for the comparison: those of
            SupCL-Seq, (0, 0.1, 0.2) on CoLA. SimCSE itself has (0.1, 0.1).
        pooling: Pooling of the embedding, as in `supcl-seq`.
        probe_learning_rate: Learning rate of the linear probe; SupCL-Seq's released code has 1e-3.
        probe_epochs: Epochs of the linear probe; SupCL-Seq's released code has 5.
    """

    protocol: ClassVar[str] = SupCLSeq.protocol
    few_shot: ClassVar[str] = SupCLSeq.few_shot
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = SupCLSeq.training

    tau: Annotated[float, Gt(0)] = 0.05
    dropouts: Annotated[tuple[Rate, ...], MinLen(2)] = (0.0, 0.1, 0.2)
    pooling: Literal["cls_pooled", "cls_raw", "mean"] = "cls_pooled"
    probe_learning_rate: Annotated[float, Gt(0), Lt(1)] = 1e-3
    probe_epochs: Annotated[int, Ge(1)] = 5

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError if the encoder lacks a needed pooler or per-row dropout."""
        return self._supervised.check(encoder)

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the two stages, contrast and linear probe."""
        contrast, probe = self._supervised.stages(training)
        contrast = replace(contrast, terms=self.contrast, labeled=False)
        return contrast, probe

    def contrast(self, model: Model, batch: Batch) -> Terms:
        """Return the loss term `sup_con`, with all views as anchors and each text as a class."""
        texts = torch.arange(len(batch.y), device=batch.y.device)
        return self._supervised.contrast(model, replace(batch, y=texts))

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression."""
        return self._supervised.scores(model, batch)

    @property
    def _supervised(self) -> SupCLSeq:
        return SupCLSeq(
            tau=self.tau,
            dropouts=self.dropouts,
            pooling=self.pooling,
            probe_learning_rate=self.probe_learning_rate,
            probe_epochs=self.probe_epochs,
        )
