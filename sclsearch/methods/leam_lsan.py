"""LEAM and LSAN, LaCon's baselines with label vectors, on an encoder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import Head, label_vectors
from sclsearch.encoders.label_attention import (
    LabelSpecificAttention,
    WindowAttention,
    check_window,
)
from sclsearch.methods.base import Batch, Method, Model, Rate, Stage, Terms, Training
from sclsearch.methods.lacon import TRAINING, vectors_of
from sclsearch.objectives import prediction_loss


@dataclass(frozen=True)
class WithLabelVectors(Method):
    """Cross-entropy fine-tuning with trained label vectors.

    Attributes:
        label_lr_mult: Multiplier of the learning rate for the label vectors; not stated in the
            paper; 1. The label vectors have no weight decay.
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"
    training: ClassVar[Mapping[str, object]] = TRAINING

    label_lr_mult: Annotated[float, Gt(0)] = 1.0

    def stages(self, training: Training) -> tuple[Stage, ...]:
        (stage,) = super().stages(training)
        scales = {"labels": self.label_lr_mult}
        return (replace(stage, lr_scales=scales, no_weight_decay=("labels",)),)


@dataclass(frozen=True)
class LEAM(WithLabelVectors):
    """Cross-entropy on an average of the tokens, weighted by their match with label vectors.

    The classifier also classifies the label vectors. LEAM reads word vectors. Here the tokens are
    the encoder's last states, as in LaCon's comparison, which does not state its settings. LEAM
    initializes each label vector with the mean word vector of the label's name; here they are
    random.

    The loss is `prediction_loss` of the texts + γ `prediction_loss` of the label vectors. The
    embedding of a text is `WindowAttention`, whose convolution mixes the rows of the labels, as in
    the released code; the paper applies one filter to each row. The classifier's hidden layer has
    the encoder's width; that of the released code has the width of the word vectors, 300. Wang et
    al., 2018, https://arxiv.org/abs/1805.04174.

    Attributes:
        kernel: Tokens in the convolution's window, odd; the released code has 55.
        label_penalty: Weight of the cross-entropy of the label vectors; the released code has 1.
        mlp_dropout: Dropout probability before both layers of the classifier; the released code
            has 0.5.
    """

    kernel: Annotated[int, Ge(1)] = 55
    label_penalty: Annotated[float, Ge(0)] = 1.0
    mlp_dropout: Rate = 0.5

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        check_window(self.kernel, "kernel")
        return super().check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        width = encoder.width
        mlp = nn.Sequential(
            nn.Dropout(self.mlp_dropout),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Dropout(self.mlp_dropout),
            nn.Linear(width, classes),
        )
        attention = WindowAttention(classes, self.kernel)
        labels = label_vectors(classes, width)
        return nn.ModuleDict({"labels": labels, "attention": attention, "mlp": mlp})

    def terms(self, model: Model, batch: Batch) -> Terms:
        vectors = vectors_of(model)
        classes = torch.arange(len(vectors), device=vectors.device)
        own = prediction_loss(model.new_modules["mlp"](vectors), classes)
        return {**super().terms(model, batch), "label": self.label_penalty * own}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        z = model.new_modules["attention"](model.hidden(batch), vectors_of(model), batch.mask)
        scores: Tensor = model.new_modules["mlp"](z)
        return scores


@dataclass(frozen=True)
class LSAN(WithLabelVectors):
    """Cross-entropy on text vectors of each label, from the text's attention and the label's.

    LSAN reads a bidirectional LSTM and ends in a sigmoid. Here the tokens are the encoder's last
    states, and softmax replaces the sigmoid, as in LaCon's comparison. LSAN's label vectors are
    given and fixed; here they start at random and are trained.

    The loss is `prediction_loss`. The embedding of a text is the mean of `LabelSpecificAttention`
    over the labels. Xiao et al., 2019, https://aclanthology.org/D19-1044.

    Attributes:
        attention_dim: Width of the hidden layer in the self-attention; the released code has 200.
    """

    attention_dim: Annotated[int, Ge(1)] = 200

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        width = encoder.width
        return nn.ModuleDict(
            {
                "labels": label_vectors(classes, width),
                "attention": LabelSpecificAttention(width, classes, self.attention_dim),
                "head": Head(width, classes, hidden=False),
            }
        )

    def scores(self, model: Model, batch: Batch) -> Tensor:
        by_label = model.new_modules["attention"](
            model.hidden(batch), vectors_of(model), batch.mask
        )  # [B, C, d]
        scores: Tensor = model.new_modules["head"](by_label.mean(1), batch.dropout_rates[0])
        return scores
