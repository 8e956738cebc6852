"""Prediction loss: cross-entropy for classes, squared error for scores."""

import torch
import torch.nn.functional as F
from torch import Tensor


def prediction_loss(scores: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean cross-entropy, or in regression the mean squared error.

    Args:
        scores: Logits `[B, C]`, or predicted scores `[B]`.
        y: Classes `[B]`, integer, or true scores `[B]`.
        weights: Weight of each class in the mean, `[C]`; None for equal weights.

    Returns:
        The loss, a scalar, float32 or float64.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scores.dim() == 1:
        return F.mse_loss(scores, y.to(scores.dtype))
    return F.cross_entropy(scores, y, None if weights is None else weights.to(scores.dtype))
