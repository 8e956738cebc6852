"""Task-adaptive pretraining, TAPT (Gururangan et al., 2020, https://arxiv.org/abs/2004.10964)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.masked_lm_head import masked_lm_head, masked_lm_notes
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.ce import CE, Pooling
from sclsearch.methods.masking import draw_selection
from sclsearch.methods.post_training import (
    AUTHORS_TRAINING,
    NAME,
    PostBatchSize,
    PostEpochs,
    PostLearningRate,
    Share,
    hidden_tokens,
    masked_lm_of,
    post_training,
)
from sclsearch.objectives.masked_lm import MlmReduction


@dataclass(frozen=True, slots=True)
class TAPT:
    """Masked language modelling on the training texts, then cross-entropy: TAPT, CMLM at α = 0.

    The schedule is that of CMLM's comparison (Luo et al., 2021, section 4.4). Gururangan et al.
    themselves post-train with learning rate 1e-4, batches of 256 and 100 epochs.

    Attributes:
        p_m: Share of the tokens that are selected for prediction; 0.15 in both papers.
        mlm_reduction: Mean over all selected tokens of the batch, as in the released code; or
            first over each text, as CMLM's Eq. (6) prints.
        post_learning_rate: Learning rate of post-training; CMLM's comparison has 1e-5, on full
            data 3e-5.
        post_batch_size: Texts per batch of post-training; CMLM's comparison has 8.
        post_epochs: Epochs of post-training; CMLM's comparison has 200, 50 and 5 for 20, 100 and
            1000 texts, on full data 3.
        pooling: Input of the classifier after post-training, as in `ce`.
    """

    protocol: ClassVar[str] = "cmlm-full"
    few_shot: ClassVar[str] = "cmlm-fewshot"
    regression: ClassVar[bool] = True
    training: ClassVar[Mapping[str, object]] = AUTHORS_TRAINING

    p_m: Share = 0.15
    mlm_reduction: MlmReduction = "tokens"
    post_learning_rate: PostLearningRate = 1e-5
    post_batch_size: PostBatchSize = 8
    post_epochs: PostEpochs = 5
    pooling: Pooling = "head_hidden"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Return a note if the head is new; raise SclsearchError without mask token or pooler."""
        encoder.check_mask_token("p_m")
        return (*CE(self.pooling).check(encoder), *masked_lm_notes(encoder))

    def new_modules(self, encoder: Encoder, _classes: int) -> nn.ModuleDict:
        """Return the masked-LM head for post-training."""
        return nn.ModuleDict({"mlm": masked_lm_head(encoder)})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the two stages, post-training and fine-tuning."""
        post = post_training(
            training, self.post_learning_rate, self.post_batch_size, self.post_epochs
        )
        return (
            Stage(
                NAME,
                post,
                self.terms,
                self.new_modules,
                labeled=False,
                whole_vocabulary=True,
            ),
            *CE(self.pooling).stages(training),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the post-training term `mlm`."""
        selected = draw_selection(batch.content, self.p_m)
        seen = replace(batch, ids=hidden_tokens(model.encoder, batch.ids, selected))
        states = model.hidden(seen)  # [B, T, d]
        return {"mlm": masked_lm_of(model, batch, states, selected, self.mlm_reduction)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression."""
        return CE(self.pooling).scores(model, batch)
