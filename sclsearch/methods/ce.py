"""Cross-entropy fine-tuning, the baseline of all four papers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import Head, projection
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.objectives import prediction_loss

Pooling = Literal["head_hidden", "cls_raw", "cls_pooled", "mean"]


@dataclass(frozen=True, slots=True)
class CE:
    """Cross-entropy fine-tuning of encoder and head; squared error in regression.

    Attributes:
        pooling: Input of the linear layer: the head's dense+tanh layer on the first token's state
            (RoBERTa, Gunel et al.), that state itself, the pretrained pooler's output (BERT), or
            the mean over tokens.
        projection: Module between embedding and head: none, or LaCon's three layers `g`, which is
            its control "BERT w/ g".
    """

    protocol: ClassVar[str] = "gunel-full"
    few_shot: ClassVar[str] = "gunel-fewshot"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = MappingProxyType({})

    pooling: Pooling = "head_hidden"
    projection: Literal["none", "g"] = "none"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError if the pooling needs a pretrained pooler that the encoder lacks."""
        encoder.check_pooling(self.pooling, "pooling")
        return ()

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return a new head, and g if `projection` selects it."""
        new_modules = nn.ModuleDict(
            {"head": Head(encoder.width, classes, hidden=self.pooling == "head_hidden")}
        )
        if self.projection == "g":
            new_modules["g"] = projection(encoder.width)
        return new_modules

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the one stage, fine-tuning."""
        return (Stage("fine-tuning", training, self.terms, self.new_modules),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss term `ce`."""
        return {"ce": prediction_loss(self.scores(model, batch), batch.y, model.class_weights)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression."""
        z = model.embed(batch, encoder_pooling(self.pooling))  # [B, d]
        if self.projection == "g":
            z = model.new_modules["g"](z)
        scores: Tensor = model.new_modules["head"](z, batch.rates[0])
        return scores


def encoder_pooling(pooling: Pooling) -> str:
    """Return the encoder pooling for a head; the dense+tanh head reads the raw first state."""
    return "cls_raw" if pooling == "head_hidden" else pooling
