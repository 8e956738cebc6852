"""AdamW with one learning rate per module, and gradient clipping."""

import torch
from torch import nn

from sclsearch.methods.base import Model, Stage


def adamw(model: Model, stage: Stage) -> torch.optim.AdamW:
    """Return AdamW over the trained parameters; each group stores its peak learning rate as `peak`.

    Biases, norms and the modules in the stage's `no_weight_decay` have no weight decay.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, module in (("", model.encoder), *model.new_modules.items()):
        peak = stage.training.learning_rate * stage.lr_scales.get(name, 1.0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                decayed = parameter.dim() > 1 and name not in stage.no_weight_decay
                decay = stage.training.weight_decay if decayed else 0.0
                groups.setdefault((peak, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": peak, "peak": peak, "weight_decay": decay}
            for (peak, decay), parameters in groups.items()
        ],
        fused=True,
    )


def set_lr(optimizer: torch.optim.Optimizer, scale: float) -> None:
    """Set each learning rate to `scale` times its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * scale


def clip(model: nn.Module, max_norm: float) -> None:
    """Clip the gradients to a total norm; 0 leaves them unchanged."""
    if max_norm > 0:
        nn.utils.clip_grad_norm_(
            [p for p in model.parameters() if p.grad is not None], max_norm, foreach=True
        )
