"""CMLM, TAPT and CSSL: post-training of the encoder without labels, then fine-tuning.

Luo et al., 2021, https://arxiv.org/abs/2106.02327; masks are those of sections 3.1 and 3.2. Random
numbers come from torch's global generator, as for dropout. Each token gets one number, whatever the
masks are.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Interval, Lt
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import INIT_STD, masked_lm_head, masked_lm_notes
from sclsearch.methods.base import Batch, Method, Model, Pooling, Stage, Terms, Training
from sclsearch.objectives import masked_lm, sim_clr, sim_siam
from sclsearch.objectives.contrastive import feature_spread
from sclsearch.protocols.papers import CMLM_TRAINING

MASKED = 0.8
RANDOM = 0.1


def draw_selection(maskable: Tensor, p: float) -> Tensor:
    """Return a dynamic random mask (DRM), Eq. (1): each maskable token is selected with p."""
    return maskable & (torch.rand(maskable.shape, device=maskable.device) < p)


def corrupt(encoder: Encoder, ids: Tensor, selected: Tensor) -> Tensor:
    """Return the token ids with the selected ones corrupted by BERT's recipe, `[B, T]`.

    It masks 80 % of the selected tokens and keeps 10 %. It replaces 10 % by a uniform draw from the
    whole vocabulary, including special tokens as in transformers.
    """
    if encoder.mask_token is None:
        raise ValueError("check_mask_token has not been called")
    share = torch.rand(ids.shape, device=ids.device)
    drawn = torch.randint(len(encoder.embeddings), ids.shape, device=ids.device)
    masked = ids.masked_fill(selected & (share < MASKED), encoder.mask_token)
    replaced = selected & (share >= MASKED) & (share < MASKED + RANDOM)
    return torch.where(replaced, drawn, masked)


def masked_lm_of(model: Model, batch: Batch, states: Tensor, selected: Tensor) -> Tensor:
    """Return the masked-LM loss over the selected tokens, given the states of corrupted texts."""
    # `nonzero` waits for the device to count the tokens. One call serves all three index_selects.
    places = selected.flatten().nonzero()[:, 0]  # [S]
    hidden = states.flatten(0, 1).index_select(0, places)  # [S, d]
    return masked_lm(
        model.new_modules["mlm"](hidden, model.encoder.embeddings),  # [S, vocabulary]
        batch.ids.flatten().index_select(0, places),
    )


Share = Annotated[float, Interval(gt=0, le=1)]
ContrastPooling = Literal["cls_raw", "mean"]


@dataclass(frozen=True)
class PostTraining(Method):
    """Post-training of the encoder without labels, then cross-entropy fine-tuning.

    Fine-tuning gets only the encoder of post-training. The batches of post-training do not depend
    on labels.

    Attributes:
        post_learning_rate: Learning rate of post-training; the paper has 1e-5, on full data 3e-5.
        post_batch_size: Texts per batch of post-training; the paper has 8.
        post_epochs: Epochs of post-training; the paper has 200, 50 and 5 for 20, 100 and 1000
            texts, on full data 3.
        pooling: Input of the classifier after post-training, as in `ce`.
        reads: Input of post-training, as in `Stage`.
        full_vocabulary: Whether post-training needs all tokens, as in `Stage`.
    """

    reads: ClassVar[Literal["texts", "paraphrases"]] = "texts"
    full_vocabulary: ClassVar[bool] = False
    protocol: ClassVar[str] = "cmlm-full"
    few_shot: ClassVar[str] = "cmlm-fewshot"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = CMLM_TRAINING

    post_learning_rate: Annotated[float, Gt(0), Lt(1)] = 1e-5
    post_batch_size: Annotated[int, Ge(1)] = 8
    post_epochs: Annotated[int, Ge(1)] = 5
    pooling: Pooling = "head_hidden"

    def stages(self, training: Training) -> tuple[Stage, ...]:
        settings = replace(
            training,
            learning_rate=self.post_learning_rate,
            batch_size=self.post_batch_size,
            epochs=self.post_epochs,
        )
        post = Stage(
            "post-training",
            settings,
            self.post_terms,
            self.post_modules,
            reads=self.reads,
            labeled=False,
            full_vocabulary=self.full_vocabulary,
        )
        return (post, *super().stages(training))

    def post_modules(self, _encoder: Encoder, _classes: int) -> nn.ModuleDict:
        return nn.ModuleDict()

    @abstractmethod
    def post_terms(self, model: Model, batch: Batch) -> Terms:
        """Return the loss terms of post-training."""


@dataclass(frozen=True)
class TAPT(PostTraining):
    """Masked language modeling on the training texts, then cross-entropy: TAPT, CMLM at α = 0.

    Stage 1 minimizes `masked_lm`, stage 2 `prediction_loss`. Form and schedule are those of CMLM's
    comparison (Luo et al., 2021, section 4.4, https://arxiv.org/abs/2106.02327). Gururangan et al.,
    2020, https://arxiv.org/abs/2004.10964, post-train with learning rate 1e-4, batches of 256 and
    100 epochs.

    Attributes:
        p_m: Share of the tokens that are selected for prediction; 0.15 in both papers.
    """

    full_vocabulary: ClassVar[bool] = True

    p_m: Share = 0.15

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        encoder.check_mask_token("p_m")
        return (*super().check(encoder), *masked_lm_notes(encoder))

    def post_modules(self, encoder: Encoder, _classes: int) -> nn.ModuleDict:
        return nn.ModuleDict({"mlm": masked_lm_head(encoder)})

    def post_terms(self, model: Model, batch: Batch) -> Terms:
        selected = draw_selection(batch.content, self.p_m)
        ids = corrupt(model.encoder, batch.ids, selected)
        states = model.hidden(replace(batch, ids=ids))  # [B, T, d]
        return {"mlm": masked_lm_of(model, batch, states, selected)}


@dataclass(frozen=True)
class CSSL(PostTraining):
    """Contrast of two paraphrases of each training text, then cross-entropy fine-tuning.

    Stage 1 minimizes `sim_clr`, Eq. (7) and (14) of CMLM (Luo et al., 2021,
    https://arxiv.org/abs/2106.02327), stage 2 `prediction_loss`. First paraphrases are the anchors,
    second ones the candidates. It contrasts within the batch, where CERT (Fang & Xie, 2020,
    https://arxiv.org/abs/2005.12766) has a queue. The contrast is SimCLR's, as in the authors'
    README; the text of Eq. (14) also permits CMLM's SimSiam.

    Attributes:
        tau: Temperature τ; not stated in CMLM's comparison; CERT's released code has 0.07.
        contrast_pooling: Contrasted embedding: the first token's last state (the paper), or the
            mean over tokens.
    """

    reads: ClassVar[Literal["texts", "paraphrases"]] = "paraphrases"

    tau: Annotated[float, Gt(0)] = 0.07
    contrast_pooling: ContrastPooling = "cls_raw"

    def post_terms(self, model: Model, batch: Batch) -> Terms:
        first, second = model.embed(batch, self.contrast_pooling).chunk(2)  # [B, d] each
        return {"sim_clr": sim_clr(first, second[None], tau=self.tau)}


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

    full_vocabulary: ClassVar[bool] = True

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
