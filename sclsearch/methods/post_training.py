"""Post-training of the encoder on texts without labels, then fine-tuning: TAPT and CSSL."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Interval, Lt
from torch import nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.masked_lm_head import masked_lm_head, masked_lm_notes
from sclsearch.methods.base import Batch, Method, Model, Pooling, Stage, Terms, Training
from sclsearch.methods.masking import corrupt, draw_selection, masked_lm_of
from sclsearch.objectives import sim_clr

# CMLM's paper names only AdamW. Its authors' README has no warm-up. It omits weight decay and
# clipping, so the defaults of transformers 2.8 apply: no weight decay, gradients clipped at 1.
AUTHORS_TRAINING: Mapping[str, object] = MappingProxyType(
    {"warmup_ratio": 0.0, "weight_decay": 0.0, "max_grad_norm": 1.0}
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
        whole_vocabulary: Whether post-training needs all tokens, as in `Stage`.
    """

    reads: ClassVar[Literal["texts", "paraphrases"]] = "texts"
    whole_vocabulary: ClassVar[bool] = False
    protocol: ClassVar[str] = "cmlm-full"
    few_shot: ClassVar[str] = "cmlm-fewshot"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = AUTHORS_TRAINING

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
            whole_vocabulary=self.whole_vocabulary,
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

    whole_vocabulary: ClassVar[bool] = True

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
