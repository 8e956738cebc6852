"""Cross-entropy, the baseline of all four papers, and cross-entropy with contrast in one loss."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Interval
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head, projection
from sclsearch.methods.base import (
    Batch,
    Method,
    Model,
    Pooling,
    Stage,
    Terms,
    Training,
    balanced_batches,
    encoder_pooling,
)
from sclsearch.objectives import nt_xent, prediction_loss, sup_con


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


PROBE_LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class SCL(Method):
    """Cross-entropy and supervised contrast in one loss: Eq. (1), (1 - λ) L_CE + λ L_SCL.

    The grid and the best point (τ, λ) = (0.3, 0.9) come from the ICLR version; arXiv v1 has none.
    At λ = 1 the head gets no gradient. A second stage then trains it on the frozen encoder, with
    learning rate 1e-3.

    The loss is (1 - λ) `prediction_loss` + λ `sup_con`: Eq. (1) to (3) of Gunel et al., 2021,
    https://arxiv.org/abs/2011.01403.

    Attributes:
        tau: Temperature τ of the contrastive term; the paper's best is 0.3.
        lam: λ, weight of the contrastive term; 0 is cross-entropy only; the paper's best is 0.9.
        scl_features: Contrasted embedding: the first token's last state, the head's hidden layer,
            the pretrained pooler's output, or the mean over tokens.
        pooling: Input of the linear layer, as in `ce`.
        rows_per_class: Texts of each class in a batch; 1 for random batches, as in the paper.
    """

    tau: Annotated[float, Gt(0)] = 0.3
    lam: Annotated[float, Interval(ge=0, le=1)] = 0.9
    scl_features: Literal["cls_raw", "head_hidden", "cls_pooled", "mean"] = "cls_raw"
    pooling: Pooling = "head_hidden"
    rows_per_class: Annotated[int, Ge(1)] = 1

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        hidden = "head_hidden" in {self.pooling, self.scl_features}
        return nn.ModuleDict({"head": Head(encoder.width, classes, hidden=hidden)})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        batches = balanced_batches(self.rows_per_class)
        joint = Stage("contrast", training, self.contrast, self.new_modules, batches=batches)
        if self.lam < 1:
            return (joint,)
        settings = replace(training, learning_rate=PROBE_LEARNING_RATE)
        frozen = encoder_pooling(self.pooling)
        probe = Stage("probe", settings, self.terms, self.new_modules, frozen_pooling=frozen)
        return joint, probe

    def contrast(self, model: Model, batch: Batch) -> Terms:
        head: Head = model.new_modules["head"]  # type: ignore[assignment]
        rate = batch.dropout_rates[0]
        poolings = encoder_pooling(self.pooling), encoder_pooling(self.scl_features)
        pooled, contrasted = model.embeddings(batch, *poolings)  # [B, d] each
        features = head.features(pooled, rate)
        z = features if self.scl_features == "head_hidden" else contrasted
        return {
            "ce": (1 - self.lam)
            * prediction_loss(head.read(features, rate), batch.y, model.class_weights),
            "scl": self.lam * sup_con(z, batch.y, tau=self.tau),
        }


@dataclass(frozen=True)
class CECL(Method):
    """CE+CL of LaCon: cross-entropy and contrast of two dropout views, L_CE + α L_NT-Xent.

    LaCon names the sources, ConSERT (https://arxiv.org/abs/2105.11741) and SimCSE
    (https://arxiv.org/abs/2104.08821), but no settings. α, τ and the contrasted embedding are those
    of ConSERT's code. That code adds the two directions of NT-Xent; here they are averaged, so its
    0.15 is 0.3 here. LaCon does not state whether cross-entropy reads one view or both; here it
    averages both. Both views have the normal dropout probability, as in SimCSE.

    The loss is `prediction_loss` + α `nt_xent`. Zhang et al., 2022 (LaCon,
    https://arxiv.org/abs/2205.10227) name this baseline without an equation.

    Attributes:
        tau: Temperature τ of the contrast; not stated in the paper; ConSERT's code has 0.1.
        alpha: α, the weight of the contrast; not stated in the paper; ConSERT's code has 0.15 for
            either direction.
        pooling: Input of the linear layer, as in `ce`; not stated in the paper.
        contrast_pooling: Contrasted embedding: the mean over tokens (ConSERT), the first token's
            last state, or the pretrained pooler's output.
    """

    protocol: ClassVar[str] = "lacon"
    few_shot: ClassVar[str] = "lacon-fewshot"

    tau: Annotated[float, Gt(0)] = 0.1
    alpha: Annotated[float, Ge(0)] = 0.3
    pooling: Pooling = "head_hidden"
    contrast_pooling: Literal["mean", "cls_raw", "cls_pooled"] = "mean"

    def stages(self, training: Training) -> tuple[Stage, ...]:
        rates = (training.dropout, training.dropout)
        return (Stage("joint", training, self.terms, self.new_modules, lambda _update: rates),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        poolings = encoder_pooling(self.pooling), self.contrast_pooling
        pooled, contrasted = model.embeddings(batch, *poolings)  # [2 * B, d] each
        logits: Tensor = model.new_modules["head"](pooled, batch.dropout_rates[0])  # [2 * B, C]
        a, b = contrasted.chunk(2)
        return {
            "ce": prediction_loss(logits, batch.view_y, model.class_weights),
            "nt_xent": self.alpha * nt_xent(a, b, tau=self.tau),
        }
