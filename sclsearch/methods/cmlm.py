"""Contrastive masked language modeling, CMLM."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import INIT_STD
from sclsearch.encoders.masked_lm_head import masked_lm_head, masked_lm_notes
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.masking import corrupt, draw_selection, masked_lm_of
from sclsearch.methods.post_training import ContrastPooling, PostTraining, Share
from sclsearch.objectives import sim_clr, sim_siam
from sclsearch.objectives.self_supervised import feature_spread


@dataclass(frozen=True)
class CMLM(PostTraining):
    """Post-training by masked words and complementary masks, then cross-entropy fine-tuning.

    Stage 1 minimizes `masked_lm` + α `sim_siam` or `sim_clr`, Eq. (6), (7), (9) and (12) of Luo et
    al., 2021, https://arxiv.org/abs/2106.02327, stage 2 `prediction_loss`. The first view hides few
    tokens and predicts them. Each further view hides many of the other tokens. The views of a text
    are contrasted. The monitored term `feature_spread` is 0 if all texts have the same embedding.
    Without contrast (α = 0) the method is `tapt`.

    Attributes:
        alpha: α, weight of the contrast; the paper's best is 0.5.
        p_m: Share of the tokens that the first view selects; the paper has 0.15.
        p_c: Share of the remaining tokens that each further view selects; the paper's best is 0.7.
        k: K, number of further views; the paper has 1.
        masking: Selection in further views: complementary to the first view (`crm`, the paper), or
            independent of it with probability `p_m` (`drm`, the paper's ablation).
        mlm: Predict the selected tokens of the first view; false is an ablation of the paper.
        contrast: `simsiam`, Eq. (9), as in the paper's results, or `simclr`, Eq. (7).
        contrast_pooling: Contrasted embedding: the first token's last state (the paper), or the
            mean over tokens.
        tau: Temperature τ of `simclr`; not stated in the paper; SimCLR's best is 0.1.
    """

    whole_vocabulary: ClassVar[bool] = True

    alpha: Annotated[float, Gt(0)] = 0.5
    p_m: Share = 0.15
    p_c: Share = 0.7
    k: Annotated[int, Ge(1)] = 1
    masking: Literal["crm", "drm"] = "crm"
    mlm: bool = True
    contrast: Literal["simsiam", "simclr"] = "simsiam"
    contrast_pooling: ContrastPooling = "cls_raw"
    tau: Annotated[float, Gt(0)] = 0.1

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        encoder.check_mask_token("p_m")
        notes = super().check(encoder)
        return (*notes, *masked_lm_notes(encoder)) if self.mlm else notes

    def post_modules(self, encoder: Encoder, _classes: int) -> nn.ModuleDict:
        new_modules = nn.ModuleDict()
        if self.mlm:
            new_modules["mlm"] = masked_lm_head(encoder)
        if self.contrast == "simsiam":
            new_modules["predictor"] = _predictor(encoder.width)
        return new_modules

    def stages(self, training: Training) -> tuple[Stage, ...]:
        post, tuning = super().stages(training)
        rates = (training.dropout,) * (1 + self.k)
        monitored = ("feature_spread",)
        return replace(post, dropout_rates=lambda _update: rates, monitored=monitored), tuning

    def post_terms(self, model: Model, batch: Batch) -> Terms:
        selected = draw_selection(batch.content, self.p_m)  # [B, T]
        views, texts = 1 + self.k, len(batch.ids)
        further = [
            corrupt(model.encoder, batch.ids, self._further(batch.content, selected))
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
            terms["mlm"] = masked_lm_of(model, batch, states[:texts], selected)
        return terms

    def _further(self, content: Tensor, selected: Tensor) -> Tensor:
        """Return the tokens that a further view selects, `[B, T]`; `crm` is Eq. (2)."""
        if self.masking == "crm":
            return draw_selection(content & ~selected, self.p_c)
        return draw_selection(content, self.p_m)

    def _contrast(self, model: Model, h: Tensor) -> Tensor:
        """Return L_CL, a scalar, from the embeddings of all views, `[K + 1, B, d]`."""
        if self.contrast == "simclr":
            return sim_clr(h[0], h[1:], tau=self.tau)
        z = model.new_modules["predictor"](h.flatten(0, 1)).view_as(h)
        return sim_siam(z[0], z[1:], h[0], h[1:])


def _predictor(width: int) -> nn.Sequential:
    """Return the predictor of one view's embedding from another's, Eq. (10), `[N, d]` to `[N, d]`.

    SimSiam's projector is omitted, because CMLM has none.
    """
    first, last = (nn.Linear(width, width, bias=False) for _ in range(2))
    for layer in (first, last):
        nn.init.normal_(layer.weight, std=INIT_STD)
    return nn.Sequential(first, nn.GELU(), last)
