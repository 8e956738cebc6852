"""SupCL-Seq (Sedghamiz et al., 2021, https://arxiv.org/abs/2109.07424)."""

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
    regression, texts are of one class if their scores agree to one decimal (the paper's
    footnote), and the probe learns by squared error. All views are anchors, as in Eq. (2). The
    paper names transformers' trainer and no warm-up; fairseq's 0.06 is taken, as everywhere. The
    probe has the batches of the contrast.

    Attributes:
        tau: Temperature τ; the paper's 0.05.
        dropouts: Dropout rate of each view; the paper's lists have 2 to 5, (0, 0.1, 0.2) on CoLA.
        pooling: The embedding: the pretrained pooler's output, as in the released code for BERT
            (the paper's footnote 2 can mean either), the first token's last state, or the mean
            over tokens.
        view_mode: `paper` makes one view for each listed rate; `official_code` does what the
            released code does: a view more, at the rate left over, and 0.1 never sets the rate.
        loss_scale: `one`, or `tau_over_base`: the released code's factor τ / 0.07.
        probe_learning_rate: Of the linear probe; the released code's 1e-3.
        probe_epochs: Of the linear probe; the released code's 5.
        probe_encoder_mode: `eval` reads the encoder without dropout, its features computed once;
            `train` leaves its dropout on, as the released code does.
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
        """Raises SclsearchError without a pretrained pooler or dropout rates by view."""
        encoder.check_pooling(self.pooling, "pooling")
        encoder.check_per_row_dropout("dropouts")
        return ()

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Returns the fresh probe."""
        return nn.ModuleDict({"head": Head(encoder.width, classes, hidden=False)})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Returns contrast and probe."""
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
        """Returns the dropout rate of each view at an update, counted from 0."""
        if self.view_mode == "paper":
            return self.dropouts
        rates, left_over = _official_views(self.dropouts, OFFICIAL_RATE)
        return rates if update == 0 else _official_views(self.dropouts, left_over)[0]

    def contrast(self, model: Model, batch: Batch) -> Terms:
        """Returns `sup_con` over all views as anchors."""
        y = batch.view_y
        if y.is_floating_point():
            y = (y * 10).round().long()
        scale = self.tau / OFFICIAL_BASE_TEMPERATURE if self.loss_scale == "tau_over_base" else 1.0
        return {"sup_con": scale * sup_con(model.embed(batch, self.pooling), y, tau=self.tau)}

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Returns `probe`, cross-entropy or squared error."""
        return {"probe": prediction_loss(self.scores(model, batch), batch.y, model.class_weights)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Returns `[B, C]`, or `[B]` in regression."""
        scores: Tensor = model.new_modules["head"](model.embed(batch, self.pooling), batch.rates[0])
        return scores


def _official_views(dropouts: tuple[float, ...], current: float) -> tuple[tuple[float, ...], float]:
    """Returns the rates that the released code really uses in one update, and what it leaves.

    It sees the batch once at the rate in force; a listed 0.1 counts as already set; and the rate
    is put back to 0.1 only if the list does not end in 0.1.
    """
    rates = [current]
    for listed in dropouts:
        current = current if listed == OFFICIAL_RATE else listed
        rates.append(current)
    return tuple(rates), current if dropouts[-1] == OFFICIAL_RATE else OFFICIAL_RATE
