"""AdamW, the learning rate as a function of the update, and clipping."""

import torch
from torch import nn

from sclsearch.methods.base import Training


def adamw(model: nn.Module, training: Training) -> torch.optim.AdamW:
    """Returns AdamW over what trains; biases and norms are not decayed."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.dim() > 1]
    rest = [parameter for parameter in trained if parameter.dim() <= 1]
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=training.learning_rate, fused=True)


def rate_factor(update: int, warmup: int, total: int) -> float:
    """Returns the share of the peak learning rate at an update, counted from 0.

    Linear from 1 / warmup up to 1, then linear down; the last update still has some.
    """
    if update < warmup:
        return (update + 1) / warmup
    return (total - update) / max(total - warmup, 1)


def clip(model: nn.Module, max_norm: float) -> None:
    """Scales the gradients down to a norm; 0 leaves them."""
    if max_norm > 0:
        nn.utils.clip_grad_norm_(
            [p for p in model.parameters() if p.grad is not None], max_norm, foreach=True
        )
