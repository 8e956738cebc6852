"""Cross-entropy fine-tuning, the baseline of all four papers."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import projection
from sclsearch.methods.base import Batch, Method, Model, Pooling, encoder_pooling


@dataclass(frozen=True)
class CE(Method):
    """Cross-entropy fine-tuning of encoder and head; squared error in regression.

    Objective:
        L = Σ_i w_i · -log softmax(s_i)[y_i] / Σ_i w_i
        L = 1/B Σ_i (s_i - y_i)²                          in regression

        s_i: Class scores of text i, in regression its predicted score: a linear layer on the
            embedding of `pooling`, after the projection g if `projection` is g.
        y_i: Class of text i, in regression its score.
        w_i: Weight of class y_i: 1, or n / (C n_c) if `class_weights` is balanced.
        B: Number of texts in a batch, `batch_size`.

        Eq. (2) of Gunel et al., 2021 (https://arxiv.org/abs/2011.01403), is the cross-entropy of
        two classes.

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
        """Return a new head, and g if `projection` selects it."""
        new_modules = super().new_modules(encoder, classes)
        if self.projection == "g":
            new_modules["g"] = projection(encoder.width)
        return new_modules

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression."""
        z = model.embed(batch, encoder_pooling(self.pooling))  # [B, d]
        if self.projection == "g":
            z = model.new_modules["g"](z)
        scores: Tensor = model.new_modules["head"](z, batch.dropout_rates[0])
        return scores
