"""SupCL-Seq and the two comparisons of its tables: SimCSE with a probe, and dropout views."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Lt, MinLen

from sclsearch.methods.base import (
    Batch,
    Method,
    Model,
    Pooling,
    Rate,
    Stage,
    Terms,
    Training,
    encoder_pooling,
)
from sclsearch.objectives import prediction_loss, sup_con

Dropouts = Annotated[tuple[Rate, ...], MinLen(2)]

OFFICIAL_RATE = 0.1
TRAINING: Mapping[str, object] = {
    "learning_rate": 5e-5,
    "batch_size": 128,
    "epochs": 5,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
}


@dataclass(frozen=True)
class ContrastAndProbe(Method):
    """Contrast of dropout views, then a linear probe on the frozen encoder.

    All views are anchors. The paper names transformers' Trainer but no warm-up; here it is 0.06 as
    in all methods. The probe has the batch settings of the contrast.

    Attributes:
        tau: Temperature τ; the paper has 0.05, as SimCSE.
        dropouts: Dropout probability of each view; the paper's lists have 2 to 5 entries, on CoLA
            (0, 0.1, 0.2).
        pooling: Pooling of the embedding: the pretrained pooler's output, as in the released code
            for BERT (footnote 2 of the paper permits both), the first token's last state, or the
            mean over tokens.
        probe_learning_rate: Learning rate of the linear probe; the released code has 1e-3.
        probe_epochs: Epochs of the linear probe; the released code has 5.
        probe: `trained` trains the probe; `solved` fits logistic or ridge regression, see
            `sclsearch.methods.solve`.
    """

    protocol: ClassVar[str] = "supcl-seq"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = TRAINING

    tau: Annotated[float, Gt(0)] = 0.05
    dropouts: Dropouts = (0.0, 0.1, 0.2)
    pooling: Literal["cls_pooled", "cls_raw", "mean"] = "cls_pooled"
    probe_learning_rate: Annotated[float, Gt(0), Lt(1)] = 1e-3
    probe_epochs: Annotated[int, Ge(1)] = 5
    probe: Literal["trained", "solved"] = "trained"

    def stages(self, training: Training) -> tuple[Stage, ...]:
        settings = replace(
            training, learning_rate=self.probe_learning_rate, epochs=self.probe_epochs
        )
        probe = Stage("probe", settings, self.terms, self.new_modules, frozen_pooling=self.pooling)
        return (
            Stage("contrast", training, self.contrast, dropout_rates=self.view_rates),
            replace(probe, solved=self.probe == "solved"),
        )

    def view_rates(self, _update: int) -> tuple[float, ...]:
        """Return the dropout probability of each view at an update, counted from 0."""
        return self.dropouts

    def contrast(self, model: Model, batch: Batch) -> Terms:
        return {"sup_con": sup_con(model.embed(batch, self.pooling), batch.view_y, tau=self.tau)}

    def terms(self, model: Model, batch: Batch) -> Terms:
        return {"probe": prediction_loss(self.scores(model, batch), batch.y, model.class_weights)}


@dataclass(frozen=True)
class SupCLSeq(ContrastAndProbe):
    """Supervised contrast of dropout views, then a linear probe on the frozen encoder.

    Stage 1 minimizes `sup_con`, Eq. (2) of Sedghamiz et al., 2021, https://arxiv.org/abs/2109.07424,
    stage 2 `prediction_loss`. In regression, texts have the same class if their scores agree to one
    decimal (the paper's footnote).

    Attributes:
        view_mode: `paper` makes one view per listed probability. `official_code` follows the
            released code: it adds a view at the probability left by the last update, and a listed
            0.1 never changes the probability. Only the views change: the released code also warms
            up for 50 updates, multiplies the loss by τ / 0.07, trains its probe in batches of 112
            on an encoder with dropout, and its mean pooling includes padding.
    """

    view_mode: Literal["paper", "official_code"] = "paper"

    def view_rates(self, update: int) -> tuple[float, ...]:
        if self.view_mode == "paper":
            return self.dropouts
        rates, left_over = _official_views(self.dropouts, OFFICIAL_RATE)
        return rates if update == 0 else _official_views(self.dropouts, left_over)[0]

    def contrast(self, model: Model, batch: Batch) -> Terms:
        y = (batch.y * 10).round().long() if batch.y.is_floating_point() else batch.y
        return super().contrast(model, replace(batch, y=y))


def _official_views(dropouts: tuple[float, ...], current: float) -> tuple[tuple[float, ...], float]:
    """Return the dropout of each view in the released code, and the dropout after the update.

    The code first reads the batch once at the current probability. It treats a listed 0.1 as
    already set. It resets the probability to 0.1 only if the list does not end in 0.1.
    """
    rates = [current]
    for listed in dropouts:
        current = current if listed == OFFICIAL_RATE else listed
        rates.append(current)
    return tuple(rates), current if dropouts[-1] == OFFICIAL_RATE else OFFICIAL_RATE


@dataclass(frozen=True)
class SimCSE(ContrastAndProbe):
    """Contrast of dropout views without labels (SimCSE), then a linear probe as in SupCL-Seq.

    This is the self-supervised comparison in Table 3 of SupCL-Seq. The loss is its Eq. (1), which
    is its Eq. (2) with each text as a separate class. With two views it is NT-Xent; with more it is
    the mean over the other views of the text. Temperature and views are not stated for the
    comparison: they are those of SupCL-Seq. SimCSE itself has the views (0.1, 0.1) and an MLP on
    the embedding, which is omitted, as in SupCL-Seq. Only the probe reads labels.

    Stage 1 minimizes `sup_con`, stage 2 `prediction_loss`. Sedghamiz et al., 2021,
    https://arxiv.org/abs/2109.07424; Gao et al., 2021, https://arxiv.org/abs/2104.08821.
    """

    def stages(self, training: Training) -> tuple[Stage, ...]:
        contrast, probe = super().stages(training)
        return replace(contrast, labeled=False), probe

    def contrast(self, model: Model, batch: Batch) -> Terms:
        texts = torch.arange(len(batch.y), device=batch.y.device)
        return super().contrast(model, replace(batch, y=texts))


@dataclass(frozen=True)
class DropoutAug(Method):
    """SupCL-Seq's augmented baseline: cross-entropy, or squared error, averaged over dropout views.

    This is the baseline in Table 2 of SupCL-Seq (section 3.2.1). Training follows SupCL-Seq's
    appendix A, to which the section refers. The paper does not state whether a view at the normal
    dropout is added to the listed ones; here it is not. The head has the dropout of its view, which
    the paper does not state either.

    The loss is `prediction_loss` of all views. Sedghamiz et al., 2021,
    https://arxiv.org/abs/2109.07424, describe it without an equation.

    Attributes:
        dropouts: Dropout probability of each view, as in `supcl-seq`.
        pooling: Input of the linear layer, as in `ce`; the paper fine-tunes BERT, which has the
            pretrained pooler's output.
    """

    protocol: ClassVar[str] = "supcl-seq"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = TRAINING

    dropouts: Dropouts = (0.0, 0.1, 0.2)
    pooling: Pooling = "cls_pooled"

    def stages(self, training: Training) -> tuple[Stage, ...]:
        (stage,) = super().stages(training)
        return (replace(stage, dropout_rates=lambda _update: self.dropouts),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        z = model.embed(batch, encoder_pooling(self.pooling))  # [V * B, d]
        views = zip(z.chunk(len(batch.dropout_rates)), batch.dropout_rates, strict=True)
        scores = torch.cat([model.new_modules["head"](view, rate) for view, rate in views])
        return {"ce": prediction_loss(scores, batch.view_y, model.class_weights)}
