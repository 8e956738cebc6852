"""LaCon and LaCon-fusion (Zhang et al., 2022, https://arxiv.org/abs/2205.10227)."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Interval
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import label_vectors, projection
from sclsearch.encoders.label_attention import WindowAttention, check_window
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Method, Model, Stage, Terms, Training
from sclsearch.objectives.lacon import (
    instance_centered,
    label_centered,
    label_embedding_regularizer,
    label_scores,
)

TRAINING: Mapping[str, object] = MappingProxyType(
    {"learning_rate": 2e-5, "batch_size": 32, "weight_decay": 0.0, "max_grad_norm": 1.0}
)
"""Middle of the paper's grids; weight decay and clipping are those of transformers' Trainer."""


@dataclass(frozen=True)
class LabelMatching(Method):
    """Fields, losses and scores that LaCon and LaCon-fusion share.

    Eq. (7): ICL' + LCL + λ LER, without cross-entropy. LCL is far below 0 once the classes are
    separated, so the loss can be negative. As printed, LCL also grows with the batch. The paper
    gives search grids but no best settings. Subclasses define the embedding of the texts.

    Attributes:
        tau: Temperature τ; the paper sweeps 0.05 to 0.5 and recommends 0.1 to 0.2.
        lam: λ, weight of LER, 0 for none; not stated; in the paper's sweep of 0.1 to 1 a
            wide range works well, while zero and large values do not.
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
        """Raise SclsearchError if heads do not divide the width, or no loss reads the texts."""
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
        """Return new label vectors and a new projection g."""
        g = projection(encoder.width, layers=self.g_layers)
        labels = label_vectors(classes, encoder.width)
        return nn.ModuleDict({"labels": labels, "g": g})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the one stage, matching of texts and labels."""
        return (
            Stage(
                "matching",
                training,
                self.terms,
                self.new_modules,
                lr_scales={"labels": self.label_lr_mult},
                no_weight_decay=("labels",),
            ),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss terms `icl`, `lcl` and `ler`, without those that are disabled."""
        h, labels = model.new_modules["g"](self.text_embeddings(model, batch)), vectors_of(model)
        terms = {"ler": self.lam * label_embedding_regularizer(labels)}
        if self.icl:
            terms["icl"] = instance_centered(h, labels, batch.y, tau=self.tau, heads=self.heads)
        if self.lcl:
            terms["lcl"] = label_centered(h, labels, batch.y, tau=self.tau)
        return terms

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the cosine of each text and label, `[B, C]`."""
        h = model.new_modules["g"](self.text_embeddings(model, batch))
        return label_scores(h, vectors_of(model))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the softmax of the cosines over τ, as in the instance-centered loss, `[B, C]`."""
        return (scores / self.tau).softmax(-1)


@dataclass(frozen=True)
class LaCon(LabelMatching):
    """Texts and trained label vectors drawn together in both directions; the nearest label wins.

    Objective:
        L = ICL' + LCL + λ LER                                                     Eq. (7)
        ICL' = -1/B Σ_{k=1..m} Σ_i log( exp(cos(h_i^k, l_{y_i}^k) / τ)
                                        / Σ_{c=1..C} exp(cos(h_i^k, l_c^k) / τ) )  Eq. (4)
        LCL = -1/|P| Σ_{c ∈ P} Σ_{a ∈ A(c)} log( exp(cos(l_c, h_a) / τ)
                                        / Σ_{b ∈ B(c)} exp(cos(l_c, h_b) / τ) )   Eq. (5)
        LER = 1/(C (C - 1)) Σ_{c ≠ d} (exp(1 + cos(l_c, l_d)) - 1)                 Eq. (6)
        h_i = g(e_i)
        prediction = argmax_c cos(h, l_c)                                          Eq. (8)

        λ: `lam`.
        τ: `tau`.
        ICL': Part of the loss if `icl`.
        LCL: Part of the loss if `lcl`.
        B: Number of texts in a batch, `batch_size`.
        m: Number of `heads`.
        g: Projection of `g_layers` layers.
        e_i: Embedding of text i, selected by `pooling`.
        l_c: Vector of label c, trained; see `label_lr_mult`.
        h_i^k: Slice k of h_i, of width d / m, and l_c^k likewise.
        A(c): Texts of the batch with label c.
        B(c): Texts of the batch with other labels.
        P: Labels with nonempty A(c) and B(c).

        Zhang et al., 2022, https://arxiv.org/abs/2205.10227.

    Attributes:
        pooling: Input of g: the first token's last state (the paper), the pretrained pooler's
            output, or the mean over tokens.
    """

    pooling: Literal["cls_raw", "cls_pooled", "mean"] = "cls_raw"

    def text_embeddings(self, model: Model, batch: Batch) -> Tensor:
        """Return the pooled states of the encoder, `[B, d]`."""
        return model.embed(batch, self.pooling)


@dataclass(frozen=True)
class LaConFusion(LabelMatching):
    """LaCon whose g reads an average of all tokens, weighted by their match with the labels.

    Section 2.6, Eq. (9): the label vectors also weight the tokens' last states. The paper states
    neither the width of the convolution nor the rows that it mixes nor the ReLU. Rows and ReLU
    follow LEAM's code, but the width does not: LEAM's is 55. The convolution has the encoder's
    learning rate.

    Objective:
        L = ICL' + LCL + λ LER, as in lacon                            Eq. (7)
        h_i = g(z_i)
        z = Σ_t β_t E_t, β = softmax(m), m_t = max_c ReLU(conv(G))_ct  Eq. (9)
        G_ct = cos(l_c, E_t)

        λ: `lam`.
        z_i: Embedding z of text i.
        E_t: Last state of token t of a text.
        β_t: Weight of token t.
        conv: Convolution over `fusion_kernel` tokens.
        l_c: Vector of label c, trained; see `label_lr_mult`.

        Zhang et al., 2022, https://arxiv.org/abs/2205.10227.

    Attributes:
        fusion_kernel: Tokens in the convolution's window, odd; not stated in the paper; 5.
    """

    fusion_kernel: Annotated[int, Ge(1)] = 5

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError as `LabelMatching.check` does, or if `fusion_kernel` is even."""
        check_window(self.fusion_kernel, "fusion_kernel")
        return super().check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return label vectors, projection g and a new attention module."""
        new_modules = super().new_modules(encoder, classes)
        new_modules["attention"] = WindowAttention(classes, self.fusion_kernel)
        return new_modules

    def text_embeddings(self, model: Model, batch: Batch) -> Tensor:
        """Return the fused text embedding z of Eq. (9), `[B, d]`."""
        states = model.hidden(batch)
        z: Tensor = model.new_modules["attention"](states, vectors_of(model), batch.mask)
        return z


def vectors_of(model: Model) -> Tensor:
    """Return the label vectors of a model, `[C, d]`."""
    labels: nn.Embedding = model.new_modules["labels"]  # type: ignore[assignment]
    return labels.weight
