"""Method SupCL-Seq (Sedghamiz et al., 2021, https://arxiv.org/abs/2109.07424)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Lt, MinLen
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import Head
from sclsearch.methods.base import Batch, Model, Rate, Stage, Terms, Training, no_new_modules
from sclsearch.objectives import prediction_loss, sup_con

OFFICIAL_RATE = 0.1
OFFICIAL_BASE_TEMPERATURE = 0.07


@dataclass(frozen=True, slots=True)
class SupCLSeq:
    """Supervised contrast of dropout views, then a linear probe on the frozen encoder.

    The contrastive loss is Eq. (2), averaged over anchors where the paper prints a sum. In
    regression, texts have the same class if their scores agree to one decimal (the paper's
    footnote), and the probe minimizes squared error. All views are anchors, as in Eq. (2). The
    paper names transformers' Trainer but no warm-up; here it is fairseq's 0.06, as in all methods.
    The probe has the batch settings of the contrast.

    Attributes:
        tau: Temperature τ; the paper has 0.05.
        dropouts: Dropout probability of each view; the paper's lists have 2 to 5 entries, on CoLA
            (0, 0.1, 0.2).
        pooling: Pooling of the embedding: the pretrained pooler's output, as in the released code
            for BERT (footnote 2 of the paper permits both), the first token's last state, or the
            mean over tokens.
        view_mode: `paper` makes one view per listed probability. `official_code` follows the
            released code: it adds a view at the probability left by the last update, and a listed
            0.1 never changes the probability.
        loss_scale: `one`, or `tau_over_base`: the released code's factor τ / 0.07.
        probe_learning_rate: Learning rate of the linear probe; the released code has 1e-3.
        probe_epochs: Epochs of the linear probe; the released code has 5.
        probe_encoder_mode: `eval` disables the encoder's dropout and computes its features once;
            `train` keeps the dropout active, as in the released code.
    """

    protocol: ClassVar[str] = "supcl-seq"
    few_shot: ClassVar[str] = "gunel-fewshot"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = MappingProxyType(
        {
            "learning_rate": 5e-5,
            "batch_size": 128,
            "epochs": 5,
            "weight_decay": 0.01,
            "max_grad_norm": 1.0,
        }
    )

    tau: Annotated[float, Gt(0)] = 0.05
    dropouts: Annotated[tuple[Rate, ...], MinLen(2)] = (0.0, 0.1, 0.2)
    pooling: Literal["cls_pooled", "cls_raw", "mean"] = "cls_pooled"
    view_mode: Literal["paper", "official_code"] = "paper"
    loss_scale: Literal["one", "tau_over_base"] = "one"
    probe_learning_rate: Annotated[float, Gt(0), Lt(1)] = 1e-3
    probe_epochs: Annotated[int, Ge(1)] = 5
    probe_encoder_mode: Literal["eval", "train"] = "eval"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError if the encoder lacks a needed pooler or per-row dropout."""
        encoder.check_pooling(self.pooling, "pooling")
        encoder.check_per_row_dropout("dropouts")
        return ()

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return a new linear probe."""
        return nn.ModuleDict({"head": Head(encoder.width, classes, hidden=False)})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the two stages, contrast and linear probe."""
        probe = replace(training, learning_rate=self.probe_learning_rate, epochs=self.probe_epochs)
        return (
            Stage(
                "contrast",
                training,
                self.contrast,
                no_new_modules,
                self.view_rates,
            ),
            Stage(
                "probe",
                probe,
                self.terms,
                self.new_modules,
                frozen_pooling=self.pooling,
                encoder_train_mode=self.probe_encoder_mode == "train",
            ),
        )

    def view_rates(self, update: int) -> tuple[float, ...]:
        """Return the dropout probability of each view at an update, counted from 0."""
        if self.view_mode == "paper":
            return self.dropouts
        rates, left_over = _official_views(self.dropouts, OFFICIAL_RATE)
        return rates if update == 0 else _official_views(self.dropouts, left_over)[0]

    def contrast(self, model: Model, batch: Batch) -> Terms:
        """Return the loss term `sup_con`, with all views as anchors."""
        y = batch.view_y
        if y.is_floating_point():
            y = (y * 10).round().long()
        scale = self.tau / OFFICIAL_BASE_TEMPERATURE if self.loss_scale == "tau_over_base" else 1.0
        return {"sup_con": scale * sup_con(model.embed(batch, self.pooling), y, tau=self.tau)}

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss term `probe`, cross-entropy or squared error."""
        return {"probe": prediction_loss(self.scores(model, batch), batch.y, model.class_weights)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression."""
        scores: Tensor = model.new_modules["head"](model.embed(batch, self.pooling), batch.rates[0])
        return scores


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
