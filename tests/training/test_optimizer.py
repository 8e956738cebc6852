"""Tests of schedules, and of learning rates and weight decay by parameter group."""

from dataclasses import replace
from typing import Any

from torch import nn

from sclsearch.methods.base import Model, Stage, Training
from sclsearch.training.optimizer import adamw, evaluation_points, lr_scale


def test_the_last_update_is_always_evaluated() -> None:
    schedules: dict[Any, list[int]] = {"epoch": [4, 8, 12], "end": [12], 5: [5, 10, 12]}
    for schedule, points in schedules.items():
        assert sorted(evaluation_points(schedule, 4, 12)) == points
    assert sorted(evaluation_points("tenth", 4, 25)) == [3, 5, 8, 10, 13, 15, 18, 20, 23, 25]


def test_the_learning_rate_is_linear_on_both_sides_of_its_peak() -> None:
    for warmup_ratio, scales in (
        (0.0, [1.0, 0.75, 0.5, 0.25]),
        (1 / 3, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
        (1.0, [0.25, 0.5, 0.75, 1.0]),
        (0.0, [1.0]),
    ):
        total = len(scales)
        found = [lr_scale(update, total, warmup_ratio) for update in range(1, total + 1)]
        assert found == scales


def test_each_parameter_has_the_learning_rate_and_weight_decay_of_its_module() -> None:
    encoder: Any = nn.ModuleDict({"words": nn.Embedding(5, 4), "norm": nn.LayerNorm(4)})
    encoder["frozen"] = nn.Linear(4, 4).requires_grad_(False)
    model = Model(encoder, nn.ModuleDict({"head": nn.Linear(4, 2), "labels": nn.Embedding(2, 4)}))
    training = Training(learning_rate=0.01, weight_decay=0.3, head_lr_mult=5.0)
    stage = Stage("joint", training, lambda _model, _batch: {}, lr_scales={"labels": 10.0})
    optimizer = adamw(model, replace(stage, no_weight_decay=("labels",)))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {
        names[id(parameter)]: (round(group["peak"], 9), group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert found == {
        "encoder.words.weight": (0.01, 0.3),
        "encoder.norm.weight": (0.01, 0.0),
        "encoder.norm.bias": (0.01, 0.0),
        "new_modules.head.weight": (0.05, 0.3),
        "new_modules.head.bias": (0.05, 0.0),
        "new_modules.labels.weight": (0.1, 0.0),
    }
    assert replace(stage, frozen_pooling="mean").lr_multiplier_of("head") == 1.0
