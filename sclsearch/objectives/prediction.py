"""Cross-entropy, mean squared error and masked-language-model losses."""

import torch
import torch.nn.functional as F
from torch import Tensor


def prediction_loss(scores: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean cross-entropy, or in regression the mean squared error.

    Args:
        scores: Logits `[B, C]`, or predicted scores `[B]`.
        y: Classes `[B]`, integer, or true scores `[B]`.
        weights: Weight of each class in the mean, `[C]`; None for equal weights.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scores.dim() == 1:
        return F.mse_loss(scores, y.to(scores.dtype))
    return F.cross_entropy(scores, y, None if weights is None else weights.to(scores.dtype))


def masked_lm(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of the tokens that are selected for prediction.

    This is masked language modeling (Devlin et al., 2019, https://arxiv.org/abs/1810.04805). The
    mean is over all selected tokens of the batch, as in Hugging Face transformers. Without selected
    tokens the loss and its gradient are 0.

    Args:
        logits: Scores over the vocabulary at the S selected positions, `[S, vocabulary]`.
        targets: Original token at each position, `[S]`.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    costs = F.cross_entropy(logits, targets, reduction="none")  # [S]
    # By a tensor: a GPU divides by a Python number less exactly, by its reciprocal.
    return costs.sum() / costs.new_full((), max(len(costs), 1))
