"""AdamW, the learning rate as a function of the update, and clipping."""

import torch
from torch import nn

from sclsearch.methods.base import Model, Stage


def adamw(model: Model, stage: Stage) -> torch.optim.AdamW:
    """Returns AdamW over what trains; each group has its peak learning rate as `peak`.

    Biases, norms and the parts that the stage names are not decayed.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for part, module in (("", model.encoder), *model.parts.items()):
        peak = stage.training.learning_rate * stage.rate_factors.get(part, 1.0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                decayed = parameter.dim() > 1 and part not in stage.undecayed
                decay = stage.training.weight_decay if decayed else 0.0
                groups.setdefault((peak, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": peak, "peak": peak, "weight_decay": decay}
            for (peak, decay), parameters in groups.items()
        ],
        fused=True,
    )


def set_rate(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Sets the learning rates to a share of their peaks."""
    for group in optimiser.param_groups:
        group["lr"] = group["peak"] * factor


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
