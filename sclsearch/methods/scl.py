"""Supervised contrastive fine-tuning, SCL (Gunel et al., 2021, https://arxiv.org/abs/2011.01403)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt, Interval
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import Head
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.ce import CE, Pooling, encoder_pooling
from sclsearch.objectives import prediction_loss, sup_con

PROBE_LEARNING_RATE = 1e-3


@dataclass(frozen=True, slots=True)
class SCL:
    """Cross-entropy and supervised contrast in one loss: Eq. (1), (1 - λ) L_CE + λ L_SCL.

    The grid and the best point (τ, λ) = (0.3, 0.9) come from the ICLR version; arXiv v1 has none.
    At λ = 1 the head gets no gradient. A second stage then trains it on the frozen encoder, with
    learning rate 1e-3.

    Attributes:
        tau: Temperature τ of the contrastive term; the paper's best is 0.3.
        lam: λ, weight of the contrastive term; 0 is cross-entropy only; the paper's best is 0.9.
        scl_reduction: Reduction over anchors: mean of those with a positive, mean of all (as
            fairseq divides by sentences), or the sum that Eq. (3) prints.
        scl_features: Contrasted embedding: the first token's last state, the head's hidden layer,
            the pretrained pooler's output, or the mean over tokens.
        pooling: Input of the linear layer, as in `ce`.
    """

    protocol: ClassVar[str] = "gunel-full"
    few_shot: ClassVar[str] = "gunel-fewshot"
    regression: ClassVar[bool] = False
    training: ClassVar[Mapping[str, object]] = MappingProxyType({})

    tau: Annotated[float, Gt(0)] = 0.3
    lam: Annotated[float, Interval(ge=0, le=1)] = 0.9
    scl_reduction: Literal["mean_valid", "mean_all", "sum"] = "mean_valid"
    scl_features: Literal["cls_raw", "head_hidden", "cls_pooled", "mean"] = "cls_raw"
    pooling: Pooling = "head_hidden"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError if the pooling needs a pretrained pooler that the encoder lacks."""
        encoder.check_pooling(self.pooling, "pooling")
        encoder.check_pooling(self.scl_features, "scl_features")
        return ()

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return a new head, with the dense+tanh layer if `pooling` or `scl_features` needs it."""
        hidden = "head_hidden" in {self.pooling, self.scl_features}
        return nn.ModuleDict({"head": Head(encoder.width, classes, hidden=hidden)})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the contrast stage, and at λ = 1 also a linear probe."""
        joint = Stage("contrast", training, self.terms, self.new_modules)
        if self.lam < 1:
            return (joint,)
        probe = replace(training, learning_rate=PROBE_LEARNING_RATE)
        return (
            joint,
            Stage(
                "probe",
                probe,
                self._cross_entropy.terms,
                self.new_modules,
                frozen_pooling=encoder_pooling(self.pooling),
            ),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss terms `ce` and `scl`."""
        head: Head = model.new_modules["head"]  # type: ignore[assignment]
        rate = batch.rates[0]
        poolings = encoder_pooling(self.pooling), encoder_pooling(self.scl_features)
        pooled, contrasted = model.embeddings(batch, *poolings)  # [B, d] each
        features = head.features(pooled, rate)
        z = features if self.scl_features == "head_hidden" else contrasted
        return {
            "ce": (1 - self.lam)
            * prediction_loss(head.read(features, rate), batch.y, model.class_weights),
            "scl": self.lam * sup_con(z, batch.y, tau=self.tau, reduction=self.scl_reduction),
        }

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores, `[B, C]`."""
        return self._cross_entropy.scores(model, batch)

    @property
    def _cross_entropy(self) -> CE:
        return CE(pooling=self.pooling)
