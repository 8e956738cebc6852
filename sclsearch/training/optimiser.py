"""AdamW, the learning rate as a function of the update, and clipping."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from sclsearch.methods.base import Model, Stage

CLIP_EPSILON = 1e-6
"""What `clip_grad_norm_` adds to the norm."""


def adamw(
    model: Model, stage: Stage, stacks: Mapping[nn.Parameter, Tensor] | None = None
) -> torch.optim.AdamW:
    """Returns AdamW over what trains; each group has its peak learning rate as `peak`.

    Biases, norms and the parts that the stage names are not decayed.

    Args:
        model: The model.
        stage: The stage.
        stacks: What to train instead of each of the model's parameters: those of several models
            of its kind, `[S, ...]`.
    """
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for part, module in (("", model.encoder), *model.parts.items()):
        peak = stage.training.learning_rate * stage.rate_factors.get(part, 1.0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                decayed = parameter.dim() > 1 and part not in stage.undecayed
                decay = stage.training.weight_decay if decayed else 0.0
                trained = parameter if stacks is None else stacks[parameter]
                groups.setdefault((peak, decay), []).append(trained)
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


def clip_each(gradients: Sequence[Tensor], max_norm: float) -> None:
    """Scales the gradients of each of several models down to a norm, as `clip` does those of one.

    Args:
        gradients: Gradients of S models, `[S, ...]`.
        max_norm: The norm; 0 leaves them.
    """
    if max_norm > 0:
        norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
        norm = torch.linalg.vector_norm(norms, dim=0)  # [S]
        factor = (max_norm / (norm + CLIP_EPSILON)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.view(-1, *[1] * (gradient.dim() - 1)))
