"""Contrastive masked language modeling, CMLM (Luo et al., 2021).

Paper: https://arxiv.org/abs/2106.02327.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import INIT_STD
from sclsearch.encoders.masked_lm_head import masked_lm_head, masked_lm_notes
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.masking import Corruption, corrupt, draw_selection, masked_lm_of
from sclsearch.methods.post_training import ContrastPooling, PostTraining, Share
from sclsearch.objectives import sim_clr, sim_siam
from sclsearch.objectives.prediction import MlmReduction
from sclsearch.objectives.self_supervised import Wrap, feature_spread

Predictor = Literal["paper", "simsiam_bn", "ln"]
BOTTLENECK = 4


@dataclass(frozen=True)
class CMLM(PostTraining):
    """Post-training by masked words and complementary masks, then cross-entropy fine-tuning.

    Post-training minimizes Eq. (12), L_MLM + α L_CL, on the training texts without labels. The
    first view hides few tokens and predicts them. Each further view hides many of the other tokens.
    L_CL contrasts the views of a text. The monitored term `feature_spread` is 0 if all texts have
    the same embedding. Without contrast (α = 0) the method is `tapt`.

    Objective:
        Stage 1: L = MLM + α CL                                                          Eq. (12)
                 MLM = -1/|S| Σ_{t ∈ S} log p(T_t | T^0)                                 Eq. (6)
                 CL = 1/(K B) Σ_k Σ_b exp(-1/2 (cos(z_b^k, h_b^0) + cos(z_b^0, h_b^k)))  Eq. (9)
                 z = W_2 gelu(W_1 h)                                                     Eq. (10)
           or    CL = -1/(K B) Σ_k Σ_b log( exp(cos(h_b^k, h_b^0) / τ)
                                           / Σ_{i=1..B} exp(cos(h_i^k, h_b^0) / τ) )     Eq. (7)
        Stage 2: L = CE

        α: `alpha`.
        CL: Selected by `contrast`: simsiam, Eq. (9), without gradient into h, or simclr, Eq. (7).
            `simsiam_wrap` neg_cos leaves out the exponential.
        τ: `tau`.
        K: Number of further views of a text, `k`.
        B: Number of texts in a batch, `post_batch_size`.
        MLM: Part of the loss if `mlm`. `mlm_reduction` selects the mean over tokens, or first over
            each text.
        T^0: First view, whose tokens S are selected with probability `p_m` and corrupted.
        h_b^k: Embedding of view k of text b, selected by `contrast_pooling`. View 0 is T^0. In a
            further view each token outside S is selected with probability `p_c` and corrupted as
            `crm_corruption` says. `masking` and `drm_prob` select the paper's ablation.
        z: Output of the `predictor`.
        CE: Mean cross-entropy of the class scores, weighted by `class_weights`; in regression the
            mean squared error. The head reads the embedding of `pooling`.

        Luo et al., 2021, https://arxiv.org/abs/2106.02327.

    Attributes:
        alpha: α, weight of the contrast; the paper's best is 0.5.
        p_m: Share of the tokens that the first view selects; the paper has 0.15.
        p_c: Share of the remaining tokens that each further view selects; the paper's best is 0.7.
        k: K, number of further views; the paper has 1.
        masking: Selection in further views: complementary to the first view (`crm`, the paper), or
            independent of it (`drm`, the paper's ablation).
        drm_prob: Share of the tokens that `drm` selects; not stated in the paper.
        crm_corruption: Corruption of the selected tokens of a further view: 80 % masked, 10 %
            replaced and 10 % kept, or all masked; not stated in the paper, which has one recipe
            for all views.
        mlm: Predict the selected tokens of the first view; false is an ablation of the paper.
        mlm_reduction: Mean over all selected tokens of the batch, as in transformers; or first
            over each text, as Eq. (6) prints.
        contrast: `simsiam`, Eq. (9), as in the paper's results, or `simclr`, Eq. (7).
        contrast_pooling: Contrasted embedding: the first token's last state (the paper), or the
            mean over tokens.
        predictor: Predictor of `simsiam`: the paper's two matrices with GELU, Eq. (10); the same
            with a LayerNorm between (`ln`); or SimSiam's original predictor (`simsiam_bn`).
        simsiam_wrap: The paper's exponential, or SimSiam's original negative cosine.
        tau: Temperature τ of `simclr`; not stated in the paper; SimCLR's best is 0.1.
    """

    whole_vocabulary: ClassVar[bool] = True

    alpha: Annotated[float, Gt(0)] = 0.5
    p_m: Share = 0.15
    p_c: Share = 0.7
    k: Annotated[int, Ge(1)] = 1
    masking: Literal["crm", "drm"] = "crm"
    drm_prob: Literal["p_m", "p_c"] = "p_m"
    crm_corruption: Corruption = "80_10_10"
    mlm: bool = True
    mlm_reduction: MlmReduction = "tokens"
    contrast: Literal["simsiam", "simclr"] = "simsiam"
    contrast_pooling: ContrastPooling = "cls_raw"
    predictor: Predictor = "paper"
    simsiam_wrap: Wrap = "exp"
    tau: Annotated[float, Gt(0)] = 0.1

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Return a note if the head is new; raise SclsearchError without mask token or pooler."""
        encoder.check_mask_token("p_m")
        notes = super().check(encoder)
        return (*notes, *masked_lm_notes(encoder)) if self.mlm else notes

    def post_modules(self, encoder: Encoder, _classes: int) -> nn.ModuleDict:
        """Return the masked-LM head and the predictor, if post-training needs them."""
        new_modules = nn.ModuleDict()
        if self.mlm:
            new_modules["mlm"] = masked_lm_head(encoder)
        if self.contrast == "simsiam":
            new_modules["predictor"] = _predictor(self.predictor, encoder.width)
        return new_modules

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the two stages, post-training and fine-tuning."""
        post, tuning = super().stages(training)
        rates = (training.dropout,) * (1 + self.k)
        monitored = ("feature_spread",)
        return replace(post, dropout_rates=lambda _update: rates, monitored=monitored), tuning

    def post_terms(self, model: Model, batch: Batch) -> Terms:
        """Return the post-training terms `contrast`, `mlm` and the monitored `feature_spread`."""
        selected = draw_selection(batch.content, self.p_m)  # [B, T]
        views, texts = 1 + self.k, len(batch.ids)
        further = [
            corrupt(
                model.encoder,
                batch.ids,
                self._further(batch.content, selected),
                self.crm_corruption,
            )
            for _ in range(self.k)
        ]
        ids = torch.cat([corrupt(model.encoder, batch.ids, selected), *further])
        states = model.hidden(
            replace(
                batch,
                ids=ids,
                mask=batch.mask.repeat(views, 1),
                types=batch.types.repeat(views, 1),
                dropout_rates=batch.dropout_rates[:1],
            )
        )  # [(K + 1) * B, T, d]
        h = model.encoder.pool(states, batch.mask, self.contrast_pooling)
        terms = {
            "contrast": self.alpha * self._contrast(model, h.view(views, texts, -1)),
            "feature_spread": feature_spread(h[:texts]),
        }
        if self.mlm:
            first = states[:texts]
            terms["mlm"] = masked_lm_of(model, batch, first, selected, self.mlm_reduction)
        return terms

    def _further(self, content: Tensor, selected: Tensor) -> Tensor:
        """Return the tokens that a further view selects, `[B, T]`; `crm` is Eq. (2)."""
        if self.masking == "crm":
            return draw_selection(content & ~selected, self.p_c)
        return draw_selection(content, self.p_m if self.drm_prob == "p_m" else self.p_c)

    def _contrast(self, model: Model, h: Tensor) -> Tensor:
        """Return L_CL, a scalar, from the embeddings of all views, `[K + 1, B, d]`."""
        if self.contrast == "simclr":
            return sim_clr(h[0], h[1:], tau=self.tau)
        z = model.new_modules["predictor"](h.flatten(0, 1)).view_as(h)
        return sim_siam(z[0], z[1:], h[0], h[1:], wrap=self.simsiam_wrap)


def _predictor(kind: Predictor, width: int) -> nn.Sequential:
    """Return the predictor of one view's embedding from another's, `[N, d]` to `[N, d]`.

    SimSiam's original predictor has a bottleneck of d / 4 and batch statistics. Here they are
    computed over all views at once, so that they exist for a last batch of one text. SimSiam's
    projector is omitted, because CMLM has none.
    """
    if kind == "simsiam_bn":
        narrow = max(width // BOTTLENECK, 1)
        layers: list[nn.Module] = [
            nn.Linear(width, narrow, bias=False),
            nn.BatchNorm1d(narrow, track_running_stats=False),
            nn.ReLU(),
            nn.Linear(narrow, width),
        ]
    else:
        norm: list[nn.Module] = [nn.LayerNorm(width)] if kind == "ln" else []
        first, last = (nn.Linear(width, width, bias=False) for _ in range(2))
        layers = [first, *norm, nn.GELU(), last]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=INIT_STD)
    return nn.Sequential(*layers)
