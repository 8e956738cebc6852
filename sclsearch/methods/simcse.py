"""Self-supervised contrast and a probe: what SupCL-Seq compares itself with in its Table 3.

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

    The loss is Eq. (1) of SupCL-Seq, its Eq. (2) with every text as a class of its own: with two
    views NT-Xent, with more the mean over the other views of the text. It is averaged over
    anchors where the paper prints a sum. SimCSE's MLP on the embedding is left out, as SupCL-Seq
    leaves it out. Only the probe reads labels.

    Attributes:
        tau: Temperature τ; not stated for the comparison, 0.05 in both papers.
        dropouts: Dropout rate of each view; not stated for the comparison: SupCL-Seq's own,
            (0, 0.1, 0.2) on CoLA. SimCSE itself has (0.1, 0.1).
        pooling: The embedding, as in `supcl-seq`.
        probe_learning_rate: Of the linear probe; SupCL-Seq's released code has 1e-3.
        probe_epochs: Of the linear probe; SupCL-Seq's released code has 5.
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
        """Raises SclsearchError without a pretrained pooler or dropout rates by view."""
        return self._supervised.check(encoder)

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Returns contrast and probe."""
        contrast, probe = self._supervised.stages(training)
        contrast = replace(contrast, terms=self.contrast, labeled=False)
        return contrast, probe

    def contrast(self, model: Model, batch: Batch) -> Terms:
        """Returns `sup_con` over all views as anchors, each text a class of its own."""
        texts = torch.arange(len(batch.y), device=batch.y.device)
        return self._supervised.contrast(model, replace(batch, y=texts))

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Returns `[B, C]`, or `[B]` in regression."""
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
