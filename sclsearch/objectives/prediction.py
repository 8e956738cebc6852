"""What a prediction costs: cross-entropy for classes, squared error for scores."""

import torch.nn.functional as F
from torch import Tensor


def prediction_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy, or in regression the mean squared error; in float32.

    Args:
        scores: Logits `[B, C]`, or predicted scores `[B]`.
        y: Classes `[B]`, integer, or true scores `[B]`.
    """
    if scores.dim() == 1:
        return F.mse_loss(scores.float(), y.float())
    return F.cross_entropy(scores.float(), y)
