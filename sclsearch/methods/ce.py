"""Cross-entropy fine-tuning, the baseline of all four papers."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import projection
from sclsearch.methods.base import Batch, Method, Model, Pooling, encoder_pooling


@dataclass(frozen=True)
class CE(Method):
    """Cross-entropy fine-tuning of encoder and head; squared error in regression.

    The loss is `prediction_loss`. Its form for two classes is Eq. (2) of Gunel et al., 2021,
    https://arxiv.org/abs/2011.01403.

    Attributes:
        pooling: Input of the linear layer: the head's dense+tanh layer on the first token's state
            (RoBERTa, Gunel et al.), that state itself, the pretrained pooler's output (BERT), or
            the mean over tokens.
        projection: Module between embedding and head: none, or LaCon's three layers `g`, which is
            its control "BERT w/ g".
    """

    regression: ClassVar[bool] = True

    pooling: Pooling = "head_hidden"
    projection: Literal["none", "g"] = "none"

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        new_modules = super().new_modules(encoder, classes)
        if self.projection == "g":
            new_modules["g"] = projection(encoder.width)
        return new_modules

    def scores(self, model: Model, batch: Batch) -> Tensor:
        z = model.embed(batch, encoder_pooling(self.pooling))  # [B, d]
        if self.projection == "g":
            z = model.new_modules["g"](z)
        scores: Tensor = model.new_modules["head"](z, batch.dropout_rates[0])
        return scores
