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
from sclsearch.encoders.label_attention import Mixing, WindowAttention, check_window
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Method, Model, Stage, Terms, Training
from sclsearch.objectives.lacon import (
    Denominator,
    HeadReduction,
    HeadSim,
    LabelReduction,
    PositiveReduction,
    Predict,
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
        tau_lcl: Temperature of LCL, 0 for τ; the paper has one temperature.
        icl: Include ICL' in the loss; false is an ablation of the paper.
        lcl: Include LCL in the loss; false is an ablation of the paper.
        icl_head_reduction: Reduction over heads: the paper's sum, or the mean.
        head_sim: Similarity in a head: the cosine of the slices, or the dot product of slices of
            the normalized whole vectors; not stated in the paper.
        lcl_positive_reduction: Reduction over a label's texts: the paper's sum, or the mean.
        lcl_denominator: Texts in the denominator: those of other labels (the paper), or all.
        ler_reduction: Reduction over pairs of labels: the mean, as in the paper's text, or the sum.
        predict: Score for prediction: the paper's cosine of whole vectors, or the mean of the
            heads' cosines.
        g_layers: Number of linear layers of the projection g, 0 for none; the paper has 3.
        g_final_relu: Apply ReLU after the last layer of g too; the paper has it on hidden layers.
        g_lr_mult: Multiplier of the learning rate for g; the paper has one learning rate.
        label_init_std: Standard deviation of the label vectors at initialization; not stated in
            the paper; BERT's 0.02.
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
    tau_lcl: Annotated[float, Ge(0)] = 0.0
    icl: bool = True
    lcl: bool = True
    icl_head_reduction: HeadReduction = "sum"
    head_sim: HeadSim = "cosine"
    lcl_positive_reduction: PositiveReduction = "sum"
    lcl_denominator: Denominator = "negatives"
    ler_reduction: LabelReduction = "mean"
    predict: Predict = "full"
    g_layers: Annotated[int, Interval(ge=0, le=8)] = 3
    g_final_relu: bool = False
    g_lr_mult: Annotated[float, Gt(0)] = 1.0
    label_init_std: Annotated[float, Gt(0)] = 0.02
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
        g = projection(encoder.width, layers=self.g_layers, final_relu=self.g_final_relu)
        labels = label_vectors(classes, encoder.width, self.label_init_std)
        return nn.ModuleDict({"labels": labels, "g": g})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the one stage, matching of texts and labels."""
        return (
            Stage(
                "matching",
                training,
                self.terms,
                self.new_modules,
                lr_scales={"labels": self.label_lr_mult, "g": self.g_lr_mult},
                no_weight_decay=("labels",),
            ),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss terms `icl`, `lcl` and `ler`, without those that are disabled."""
        h, labels = model.new_modules["g"](self.text_embeddings(model, batch)), vectors_of(model)
        spread = label_embedding_regularizer(labels, reduction=self.ler_reduction)
        terms = {"ler": self.lam * spread}
        if self.icl:
            terms["icl"] = instance_centered(
                h,
                labels,
                batch.y,
                tau=self.tau,
                heads=self.heads,
                head_reduction=self.icl_head_reduction,
                head_sim=self.head_sim,
            )
        if self.lcl:
            terms["lcl"] = label_centered(
                h,
                labels,
                batch.y,
                tau=self.tau_lcl or self.tau,
                positive_reduction=self.lcl_positive_reduction,
                denominator=self.lcl_denominator,
            )
        return terms

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the cosine of each text and label, `[B, C]`."""
        h = model.new_modules["g"](self.text_embeddings(model, batch))
        return label_scores(h, vectors_of(model), heads=self.heads, predict=self.predict)

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
        LCL = -1/|P| Σ_{c ∈ P} Σ_{a ∈ A(c)} log( exp(cos(l_c, h_a) / τ')
                                        / Σ_{b ∈ B(c)} exp(cos(l_c, h_b) / τ') )   Eq. (5)
        LER = 1/(C (C - 1)) Σ_{c ≠ d} (exp(1 + cos(l_c, l_d)) - 1)                 Eq. (6)
        h_i = g(e_i)
        prediction = argmax_c cos(h, l_c)                                          Eq. (8)

        λ: `lam`.
        τ: `tau`.
        τ': `tau_lcl`, or τ if that is 0.
        ICL': Part of the loss if `icl`. `icl_head_reduction` mean divides it by m.
        LCL: Part of the loss if `lcl`.
        LER: Without the factor 1/(C (C - 1)) if `ler_reduction` is sum.
        B: Number of texts in a batch, `batch_size`.
        m: Number of `heads`.
        g: Projection of `g_layers` layers, with a last ReLU if `g_final_relu`. `g_lr_mult` scales
            its learning rate.
        e_i: Embedding of text i, selected by `pooling`.
        l_c: Vector of label c, trained; see `label_init_std` and `label_lr_mult`.
        h_i^k: Slice k of h_i, of width d / m, and l_c^k likewise. If `head_sim` is dot, h_i and l_c
            are L2-normalized first, and the dot product of the slices replaces the cosine.
        A(c): Texts of the batch with label c. `lcl_positive_reduction` mean replaces their sum by
            their mean.
        B(c): Texts of the batch with other labels, or all texts if `lcl_denominator` is all.
        P: Labels with nonempty A(c) and B(c).
        prediction: With `predict` head_mean, the mean of the cosines of the slices.

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
    neither the width of the convolution nor the rows that it mixes. The rows follow LEAM's code,
    but the width does not: LEAM's is 55. The convolution has the encoder's learning rate.

    Objective:
        L = ICL' + LCL + λ LER, as in lacon                            Eq. (7)
        h_i = g(z_i)
        z = Σ_t β_t E_t, β = softmax(m), m_t = max_c ReLU(conv(G))_ct  Eq. (9)
        G_ct = cos(l_c, E_t)

        λ: `lam`.
        z_i: Embedding z of text i.
        E_t: Last state of token t of a text.
        β_t: Weight of token t; 0 for [CLS] and [SEP] if `fusion_exclude_special`.
        conv: Convolution over `fusion_kernel` tokens, whose filters `fusion_conv` selects. ReLU is
            left out if `fusion_relu` is false.
        l_c: Vector of label c, trained; see `label_init_std` and `label_lr_mult`.

        Zhang et al., 2022, https://arxiv.org/abs/2205.10227.

    Attributes:
        fusion_kernel: Tokens in the convolution's window, odd; not stated in the paper; 5.
        fusion_conv: `full` mixes the rows of the labels, as in LEAM's code; `shared` applies one
            filter to each row, as in LEAM's paper; not stated in the paper.
        fusion_relu: Apply ReLU after the convolution; not stated in the paper; LEAM does.
        fusion_exclude_special: Give [CLS] and [SEP] no weight; the paper keeps [CLS].
    """

    fusion_kernel: Annotated[int, Ge(1)] = 5
    fusion_conv: Mixing = "full"
    fusion_relu: bool = True
    fusion_exclude_special: bool = False

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError as `LabelMatching.check` does, or if `fusion_kernel` is even."""
        check_window(self.fusion_kernel, "fusion_kernel")
        return super().check(encoder)

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        """Return label vectors, projection g and a new attention module."""
        new_modules = super().new_modules(encoder, classes)
        new_modules["attention"] = WindowAttention(
            classes, self.fusion_kernel, mixing=self.fusion_conv, relu=self.fusion_relu
        )
        return new_modules

    def text_embeddings(self, model: Model, batch: Batch) -> Tensor:
        """Return the fused text embedding z of Eq. (9), `[B, d]`."""
        counted = batch.mask
        if self.fusion_exclude_special:
            # A text with only special tokens gives them the weight.
            counted = batch.content | (batch.mask & ~batch.content.any(1, keepdim=True))
        z: Tensor = model.new_modules["attention"](
            model.hidden(batch), vectors_of(model), batch.mask, counted
        )
        return z


def vectors_of(model: Model) -> Tensor:
    """Return the label vectors of a model, `[C, d]`."""
    labels: nn.Embedding = model.new_modules["labels"]  # type: ignore[assignment]
    return labels.weight
