"""Contrastive self-supervised post-training, CSSL (CERT: Fang & Xie, 2020).

Paper: https://arxiv.org/abs/2005.12766. The form is that of CMLM's comparison (Luo et al., 2021,
https://arxiv.org/abs/2106.02327): it contrasts within the batch, where CERT has a queue (MoCo).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training, no_new_modules
from sclsearch.methods.ce import CE, Pooling
from sclsearch.methods.post_training import (
    AUTHORS_TRAINING,
    NAME,
    ContrastPooling,
    PostBatchSize,
    PostEpochs,
    PostLearningRate,
    post_training,
)
from sclsearch.objectives import sim_clr


@dataclass(frozen=True, slots=True)
class CSSL:
    """Contrast of two paraphrases of each training text, then cross-entropy fine-tuning.

    Eq. (13) and (14) of CMLM: two back-translations replace the masked views, and masked language
    modeling is omitted. The contrast is SimCLR's, as in the authors' README; the text of Eq. (14)
    also permits CMLM's SimSiam. First paraphrases are the anchors, second ones the candidates.

    Attributes:
        tau: Temperature τ; not stated in CMLM's comparison; CERT's released code has 0.07.
        contrast_pooling: Contrasted embedding: the first token's last state (the paper), or the
            mean over tokens.
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

    tau: Annotated[float, Gt(0)] = 0.07
    contrast_pooling: ContrastPooling = "cls_raw"
    post_learning_rate: PostLearningRate = 1e-5
    post_batch_size: PostBatchSize = 8
    post_epochs: PostEpochs = 5
    pooling: Pooling = "head_hidden"

    def check(self, encoder: Encoder) -> tuple[str, ...]:
        """Raise SclsearchError if the pooling needs a pretrained pooler that the encoder lacks."""
        return CE(self.pooling).check(encoder)

    def stages(self, training: Training) -> tuple[Stage, ...]:
        """Return the two stages: post-training on paraphrases, fine-tuning on the texts."""
        post = post_training(
            training, self.post_learning_rate, self.post_batch_size, self.post_epochs
        )
        return (
            Stage(
                NAME,
                post,
                self.terms,
                no_new_modules,
                reads="paraphrases",
                labeled=False,
            ),
            *CE(self.pooling).stages(training),
        )

    def terms(self, model: Model, batch: Batch) -> Terms:
        """Return the post-training term `sim_clr`."""
        first, second = model.embed(batch, self.contrast_pooling).chunk(2)  # [B, d] each
        return {"sim_clr": sim_clr(first, second[None], tau=self.tau)}

    def scores(self, model: Model, batch: Batch) -> Tensor:
        """Return the class scores `[B, C]`, or the predicted scores `[B]` in regression."""
        return CE(self.pooling).scores(model, batch)
