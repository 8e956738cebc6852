"""Optimization schedule of a stage: updates, learning rate, evaluation points, and AdamW."""

import torch
from torch import Tensor, nn

from sclsearch.methods.base import Model, Stage, Training
from sclsearch.protocols.base import Evaluate


def purpose(use: str, remaining: int) -> str:
    """Return the name of the random stream of a stage, that `remaining` stages follow, for a use.

    Stages are counted from the end, which pairs the methods. In one replicate the last stages of
    all methods read the rows in the same order, and equal heads have equal initial weights.
    """
    return f"{use}/{remaining}"


def updates_per_epoch(rows: int, training: Training) -> int:
    """Return the number of batches per epoch, at least 1."""
    return max(-(-rows // training.batch_size), 1)


def updates_of(rows: int, stage: Stage, most: int | None) -> int:
    """Return the number of updates of a stage: those of its epochs, `most` of them if it is set."""
    training = stage.training
    planned = stage.max_steps or updates_per_epoch(rows, training) * training.epochs
    return min(planned, most or planned)


def lr_scale(update: int, total: int, warmup_ratio: float) -> float:
    """Return the share of the peak learning rate at an update, counted from 1.

    Linear from 1 / warmup to 1, then linear down to 1 / (total - warmup) at the last update.
    """
    warmup = round(total * warmup_ratio)
    if update <= warmup:
        return update / warmup
    return (total - update + 1) / max(total - warmup, 1)


def evenly(total: int, times: int) -> frozenset[int]:
    """Return `times` evenly spaced update numbers, counted from 1, that include the last update."""
    return frozenset(-(-total * part // times) for part in range(1, times + 1))


def evaluation_points(evaluate: Evaluate, per_epoch: int, total: int) -> frozenset[int]:
    """Return the updates, counted from 1, after which the engine validates."""
    if evaluate == "tenth":
        return evenly(total, 10)
    every = {"epoch": per_epoch, "end": total}[evaluate] if isinstance(evaluate, str) else evaluate
    return frozenset(range(every, total, every)) | {total}


def adamw(model: Model, stage: Stage) -> torch.optim.AdamW:
    """Return AdamW over the trained parameters; each group stores its peak learning rate as `peak`.

    On a GPU, learning rates are tensors there, which a CUDA graph reads at each replay. Biases,
    norms and the modules in the stage's `no_weight_decay` have no weight decay.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, module in (("", model.encoder), *model.new_modules.items()):
        peak = stage.training.learning_rate * stage.lr_multiplier_of(name)
        for parameter in module.parameters():
            if parameter.requires_grad:
                decayed = parameter.dim() > 1 and name not in stage.no_weight_decay
                decay = stage.training.weight_decay if decayed else 0.0
                groups.setdefault((peak, decay), []).append(parameter)
    on_gpu = all(parameter.is_cuda for parameter in model.parameters())
    return torch.optim.AdamW(
        [
            {
                "params": parameters,
                "lr": torch.tensor(peak, device=parameters[0].device) if on_gpu else peak,
                "peak": peak,
                "weight_decay": decay,
            }
            for (peak, decay), parameters in groups.items()
        ],
        fused=True,
        capturable=on_gpu,
    )


def set_learning_rates(optimizer: torch.optim.AdamW, scale: float) -> None:
    """Set the learning rate of each group to a share of its peak."""
    for group in optimizer.param_groups:
        lr = group["peak"] * scale
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr
