"""What methods share that post-train the encoder on the training texts, without their labels.

Their second stage is cross-entropy fine-tuning; only the encoder passes on to it.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Interval, Lt
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.masking import Corruption, corrupt
from sclsearch.objectives import masked_lm
from sclsearch.objectives.masked_lm import IGNORED, MlmReduction

NAME = "post-training"
# CMLM's paper names AdamW alone. Its authors' README has no warm-up and, by leaving them out, the
# defaults of transformers 2.8: no weight decay, gradients clipped at 1.
AUTHORS_TRAINING: Mapping[str, object] = MappingProxyType(
    {"warmup_ratio": 0.0, "weight_decay": 0.0, "max_grad_norm": 1.0}
)

Share = Annotated[float, Interval(gt=0, le=1)]
PostLearningRate = Annotated[float, Gt(0), Lt(1)]
PostBatchSize = Annotated[int, Ge(1)]
PostEpochs = Annotated[int, Ge(1)]
ContrastPooling = Literal["cls_raw", "mean"]


def post_training(
    training: Training, learning_rate: float, batch_size: int, epochs: int
) -> Training:
    """Returns the settings of the first stage: as given, and batches that look at no label."""
    return replace(
        training,
        learning_rate=learning_rate,
        batch_size=batch_size,
        epochs=epochs,
        batch_sampling="shuffle",
    )


def hidden_tokens(
    encoder: Encoder, ids: Tensor, selected: Tensor, how: Corruption = "80_10_10"
) -> Tensor:
    """Returns the tokens with the selected ones corrupted, `[B, T]`."""
    if encoder.mask_token is None:
        raise ValueError("check_mask_token has not been called")
    return corrupt(
        ids,
        selected,
        mask_token=encoder.mask_token,
        vocabulary=len(encoder.embeddings),
        how=how,
    )


def masked_lm_of(
    model: Model, batch: Batch, states: Tensor, selected: Tensor, reduction: MlmReduction
) -> Tensor:
    """Returns the loss of predicting the selected tokens, and those alone, a scalar.

    Args:
        model: Has the head as part `mlm`.
        batch: The texts, not corrupted.
        states: What the encoder made of the corrupted ones, `[B, T, d]`.
        selected: True at tokens to predict, `[B, T]`.
        reduction: Over tokens, or by text first.
    """
    texts, length = selected.shape
    # Their number is what a device is waited for: once, and not for each of the three.
    places = selected.flatten().nonzero()[:, 0]  # [S]
    targets = batch.ids.masked_fill(~selected, IGNORED).flatten()
    hidden = states.flatten(0, 1).index_select(0, places)  # [S, d]
    return masked_lm(
        model.new_modules["mlm"](hidden, model.encoder.embeddings),  # [S, vocabulary]
        targets.index_select(0, places),
        places // length,
        texts=texts,
        reduction=reduction,
    )
