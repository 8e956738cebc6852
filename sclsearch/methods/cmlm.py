"""Contrastive masked language modelling, CMLM (Luo et al., 2021).

Paper: https://arxiv.org/abs/2106.02327.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import INIT_STD
from sclsearch.encoders.masked_lm_head import masked_lm_head, masked_lm_notes
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.ce import CE, Pooling
from sclsearch.methods.masking import Corruption, draw_complement, draw_selection
from sclsearch.methods.post_training import (
    AUTHORS_TRAINING,
    NAME,
    ContrastPooling,
    PostBatchSize,
    PostEpochs,
    PostLearningRate,
    Share,
    hidden_tokens,
    masked_lm_of,
    post_training,
)
from sclsearch.objectives import sim_clr, sim_siam
from sclsearch.objectives.masked_lm import MlmReduction
from sclsearch.objectives.sim_siam import Wrap, feature_spread

Predictor = Literal["paper", "simsiam_bn", "ln"]
BOTTLENECK = 4


@dataclass(frozen=True, slots=True)
class CMLM:
    """Post-training by masked words and complementary masks, then cross-entropy fine-tuning.

    Post-training has the loss of Eq. (12), L_MLM + α L_CL, on the training texts without labels:
    the first view hides few tokens and predicts them, each further view hides many of the others,
    and the views of a text are contrasted. `feature_spread` is watched beside it: at 0 all texts
    have one embedding. Without contrast (α = 0) it is `tapt`.

    Attributes:
        alpha: α, the weight of the contrast; the paper's best is 0.5.
        p_m: Share of the tokens that the first view selects; the paper's 0.15.
        p_c: Share that a further view selects of what the first did not; the paper's best is 0.7.
        k: K, the number of further views; the paper's 1.
        masking: How further views select: complementary to the first (`crm`, the paper), or
            regardless of it (`drm`, the paper's ablation).
        drm_prob: Which share `drm` selects; not stated in the paper.
        crm_corruption: Of the selected tokens of a further view: 80 % masked, 10 % replaced and
            10 % kept, or all masked; not stated in the paper, which has one recipe for all.
        mlm: Whether the first view's tokens are predicted; without, the paper's ablation.
        mlm_reduction: Mean over all selected tokens of the batch, as transformers has it; or by
            text first, as Eq. (6) prints.
        contrast: `simsiam`, Eq. (9), as in the paper's results, or `simclr`, Eq. (7).
        contrast_pooling: What is contrasted: the first token's last state (the paper), or the mean
            over tokens.
        predictor: Of `simsiam`: the paper's two matrices with GELU, Eq. (10); the same with a norm
            between (`ln`); or SimSiam's own predictor (`simsiam_bn`).
        simsiam_wrap: The paper's exponential, or SimSiam's own negative cosine.
        tau: Temperature τ of `simclr`; not stated in the paper; SimCLR's best is 0.1.
        post_learning_rate: Of post-training; the paper's 1e-5, on full data 3e-5.
        post_batch_size: Of post-training; the paper's 8.
        post_epochs: Of post-training; the paper's 200, 50 and 5 for 20, 100 and 1000 texts, on
            full data 3.
        pooling: What the classifier reads after post-training, as in `ce`.
    """

    protocol: ClassVar[str] = "cmlm-full"
    few_shot: ClassVar[str] = "cmlm-fewshot"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = AUTHORS_TRAINING

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
    post_learning_rate: PostLearningRate = 1e-5
    post_batch_size: PostBatchSize = 8
    post_epochs: PostEpochs = 5
    pooling: Pooling = "head_hidden"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Returns whether the head is fresh; raises SclsearchError without mask token or pooler."""
        encoder.check_mask_token("p_m")
        notes = CE(self.pooling).check(encoder)
        return (*notes, *masked_lm_notes(encoder)) if self.mlm else notes

    def new_modules(self, encoder: Encoder, _classes: int) -> nn.ModuleDict:
        """Returns the masked-LM head and the predictor, those of them that post-training needs."""
        new_modules = nn.ModuleDict()
        if self.mlm:
            new_modules["mlm"] = masked_lm_head(encoder)
        if self.contrast == "simsiam":
            new_modules["predictor"] = _predictor(self.predictor, encoder.width)
        return new_modules

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Returns post-training and fine-tuning."""
        post = post_training(
            training, self.post_learning_rate, self.post_batch_size, self.post_epochs
        )
        rates = (training.dropout,) * (1 + self.k)
        return (
            Stage(
                NAME,
                post,
                self.terms,
                self.new_modules,
                lambda _update: rates,
                labeled=False,
                monitored=("feature_spread",),
                whole_vocabulary=True,
            ),
            *CE(self.pooling).stages(training),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Returns `contrast`, the gauge `feature_spread`, and `mlm`, of post-training."""
        selected = draw_selection(batch.content, self.p_m)  # [B, T]
        views = 1 + self.k
        states = model.hidden(
            replace(
                batch,
                ids=self._views(model.encoder, batch, selected),
                mask=batch.mask.repeat(views, 1),
                types=batch.types.repeat(views, 1),
                rates=batch.rates[:1],
            )
        )  # [(K + 1) * B, T, d]
        h = model.encoder.pool(states, batch.mask, self.contrast_pooling)
        first, *_ = states.chunk(views)
        terms = {
            "contrast": self.alpha * self._contrast(model, h.view(views, len(batch.ids), -1)),
            "feature_spread": feature_spread(h[: len(batch.ids)]),
        }
        if self.mlm:
            terms["mlm"] = masked_lm_of(model, batch, first, selected, self.mlm_reduction)
        return terms

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Returns `[B, C]`, or `[B]` in regression."""
        return CE(self.pooling).scores(model, batch)

    def _views(self, encoder: Encoder, batch: Batch, selected: Tensor) -> Tensor:
        """Returns the tokens of all views, `[(K + 1) * B, T]`, the first view first."""
        others = [
            hidden_tokens(
                encoder, batch.ids, self._further(batch.content, selected), self.crm_corruption
            )
            for _ in range(self.k)
        ]
        return torch.cat([hidden_tokens(encoder, batch.ids, selected), *others])

    def _further(self, content: Tensor, selected: Tensor) -> Tensor:
        if self.masking == "crm":
            return draw_complement(content, selected, self.p_c)
        return draw_selection(content, self.p_m if self.drm_prob == "p_m" else self.p_c)

    def _contrast(self, model: Model, h: Tensor) -> Tensor:
        """Returns L_CL, a scalar, from the embeddings of all views, `[K + 1, B, d]`."""
        if self.contrast == "simclr":
            return sim_clr(h[0], h[1:], tau=self.tau)
        z = model.new_modules["predictor"](h.flatten(0, 1)).view_as(h)
        return sim_siam(z[0], z[1:], h[0], h[1:], wrap=self.simsiam_wrap)


def _predictor(kind: Predictor, width: int) -> nn.Sequential:
    """Returns what predicts one view's embedding from another's, `[N, d]` to `[N, d]`.

    SimSiam's own narrows to a quarter of d and has batch statistics, here over all views at once,
    so that a last batch of one text has some. Its projector is left out, as CMLM has none.
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
