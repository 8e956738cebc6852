"""LaCon, LaCon-fusion (Zhang et al., 2022, https://arxiv.org/abs/2205.10227) and its baselines."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Interval
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import (
    Head,
    LabelSpecificAttention,
    WindowAttention,
    check_window,
    label_vectors,
    projection,
)
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Method, Model, Rate, Stage, Terms, Training
from sclsearch.objectives import prediction_loss
from sclsearch.objectives.lacon import (
    instance_centered,
    label_centered,
    label_embedding_regularizer,
    label_scores,
)
from sclsearch.protocols.papers import TRANSFORMERS_DEFAULTS

TRAINING: Mapping[str, object] = {
    "learning_rate": 2e-5,
    "batch_size": 32,
    **TRANSFORMERS_DEFAULTS,
}
"""Learning rate and batch size are the middle of the paper's grids."""


@dataclass(frozen=True)
class LabelMatching(Method):
    """Fields, losses and scores that LaCon and LaCon-fusion share.

    Eq. (7): ICL' + LCL + λ LER, without cross-entropy. LCL is far below 0 once the classes are
    separated, so the loss can be negative. As printed, LCL also grows with the batch. The paper
    gives search grids but no best settings. Subclasses define the embedding of the texts.

    Attributes:
        tau: Temperature τ; the paper sweeps 0.05 to 0.5 and recommends 0.1 to 0.2.
        lam: λ, weight of LER, 0 for none; the paper states no value: in its sweep of 0.1 to 1
            most values work well, zero and large ones do not.
        heads: m, number of slices of the embedding that ICL' compares separately, a divisor of its
            width; 1 gives ICL; the paper's best on RTE is 6.
        icl: Include ICL' in the loss; false is an ablation of the paper.
        lcl: Include LCL in the loss; false is an ablation of the paper.
        g_layers: Number of linear layers of the projection g, 0 for none; the paper has 3.
        label_lr_mult: Multiplier of the learning rate for the label vectors; the paper has one
            learning rate. The label vectors have no weight decay.
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"
    cross_entropy: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = TRAINING

    tau: Annotated[float, Gt(0)] = 0.1
    lam: Annotated[float, Ge(0)] = 0.5
    heads: Annotated[int, Ge(1)] = 6
    icl: bool = True
    lcl: bool = True
    g_layers: Annotated[int, Interval(ge=0, le=8)] = 3
    label_lr_mult: Annotated[float, Gt(0)] = 1.0

    @abstractmethod
    def text_embeddings(self, model: Model, batch: Batch) -> Tensor:
        """Return the input of g, `[B, d]`."""

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        notes = super().check(encoder)
        if encoder.width % self.heads:
            divisors = [str(d) for d in range(1, encoder.width + 1) if encoder.width % d == 0]
            raise SclsearchError(
                f"heads: must divide the width of model {encoder.name!r}, {encoder.width}, got "
                f"{self.heads}. Use one of {', '.join(divisors)}."
            )
        if not (self.icl or self.lcl):
            raise SclsearchError(
                "icl, lcl: both are false, so no loss reads the texts. Set one of them to true."
            )
        return notes

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        g = projection(encoder.width, layers=self.g_layers)
        labels = label_vectors(classes, encoder.width)
        return nn.ModuleDict({"labels": labels, "g": g})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        stage = Stage("matching", training, self.terms, self.new_modules)
        return (_with_label_rate(stage, self.label_lr_mult),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        h, labels = model.new_modules["g"](self.text_embeddings(model, batch)), vectors_of(model)
        terms = {"ler": self.lam * label_embedding_regularizer(labels)}
        if self.icl:
            terms["icl"] = instance_centered(h, labels, batch.y, tau=self.tau, heads=self.heads)
        if self.lcl:
            terms["lcl"] = label_centered(h, labels, batch.y, tau=self.tau)
        return terms

    def scores(self, model: Model, batch: Batch) -> Tensor:
        h = model.new_modules["g"](self.text_embeddings(model, batch))
        return label_scores(h, vectors_of(model))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the softmax of the cosines over τ, as in the instance-centered loss, `[B, C]`."""
        return (scores / self.tau).softmax(-1)


@dataclass(frozen=True)
class LaCon(LabelMatching):
    """Contrast of texts and trained label vectors in both directions; predicts the nearest label.

    The loss is `instance_centered` + `label_centered` + λ `label_embedding_regularizer`: Eq. (4) to
    (7) of Zhang et al., 2022, https://arxiv.org/abs/2205.10227. `label_scores`, Eq. (8), predict.

    Attributes:
        pooling: Input of g: the first token's last state (the paper), the pretrained pooler's
            output, or the mean over tokens.
    """

    pooling: Literal["cls_raw", "cls_pooled", "mean"] = "cls_raw"

    def text_embeddings(self, model: Model, batch: Batch) -> Tensor:
        return model.embed(batch, self.pooling)


@dataclass(frozen=True)
class LaConFusion(LabelMatching):
    """LaCon with label-aware attention pooling over all tokens.

    Section 2.6, Eq. (9): the label vectors also weight the tokens' last states. The paper states
    neither the width of the convolution nor the rows that it mixes nor the ReLU. Rows and ReLU
    follow LEAM's code, but the width does not: LEAM's is 55. The convolution has the encoder's
    learning rate.

    The loss is that of `lacon`. Zhang et al., 2022, https://arxiv.org/abs/2205.10227.

    Attributes:
        fusion_kernel: Tokens in the convolution's window, odd; the paper states none; 5 here.
    """

    fusion_kernel: Annotated[int, Ge(1)] = 5

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        check_window(self.fusion_kernel, "fusion_kernel")
        return super().check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        new_modules = super().new_modules(encoder, classes)
        new_modules["attention"] = WindowAttention(classes, self.fusion_kernel)
        return new_modules

    def text_embeddings(self, model: Model, batch: Batch) -> Tensor:
        states = model.hidden(batch)
        z: Tensor = model.new_modules["attention"](states, vectors_of(model), batch.mask)
        return z


def _with_label_rate(stage: Stage, scale: float) -> Stage:
    return replace(stage, lr_scales={"labels": scale}, no_weight_decay=("labels",))


def vectors_of(model: Model) -> Tensor:
    """Return the label vectors of a model, `[C, d]`."""
    labels: nn.Embedding = model.new_modules["labels"]  # type: ignore[assignment]
    return labels.weight


@dataclass(frozen=True)
class WithLabelVectors(Method):
    """Cross-entropy fine-tuning with trained label vectors.

    Attributes:
        label_lr_mult: Multiplier of the learning rate for the label vectors; the paper states
            none; 1 here. The label vectors have no weight decay.
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"
    training: ClassVar[Mapping[str, object]] = TRAINING

    label_lr_mult: Annotated[float, Gt(0)] = 1.0

    def stages(self, training: Training) -> tuple[Stage, ...]:
        (stage,) = super().stages(training)
        return (_with_label_rate(stage, self.label_lr_mult),)


@dataclass(frozen=True)
class LEAM(WithLabelVectors):
    """Cross-entropy on tokens pooled by their attention to label vectors.

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
    """Cross-entropy on one text vector per label, from self-attention and label attention.

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
