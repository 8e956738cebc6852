"""Shared code of methods that post-train the encoder on the training texts, without labels.

Their second stage is cross-entropy fine-tuning, which gets only the encoder of the first stage.
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
# CMLM's paper names only AdamW. Its authors' README has no warm-up. It omits weight decay and
# clipping, so the defaults of transformers 2.8 apply: no weight decay, gradients clipped at 1.
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
    """Return the settings of the post-training stage, whose batches do not depend on labels."""
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
    """Return the token ids with the selected ones corrupted for the encoder, `[B, T]`."""
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
    """Return the masked-LM loss over the selected tokens, a scalar.

    Args:
        model: Model with the masked-LM head as new module `mlm`.
        batch: The uncorrupted texts.
        states: Last hidden states of the corrupted texts, `[B, T, d]`.
        selected: True at tokens to predict, `[B, T]`.
        reduction: Mean over tokens, or first over each text.
    """
    texts, length = selected.shape
    # `nonzero` waits for the device to count the tokens. One call serves all three index_selects.
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
