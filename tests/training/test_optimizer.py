"""Tests of the learning-rate schedule and of weight decay by parameter group."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from sclsearch.methods.base import Model, Stage, Training
from sclsearch.training.optimizer import adamw, lr_scale


@pytest.fixture
def model() -> Model:
    encoder: Any = nn.ModuleDict({"words": nn.Embedding(5, 4), "norm": nn.LayerNorm(4)})
    return Model(encoder, nn.ModuleDict({"out": nn.Linear(4, 2), "labels": nn.Embedding(2, 4)}))


def stage_with(**options: Any) -> Stage:
    training = Training(learning_rate=0.01, weight_decay=0.3)
    return Stage("joint", training, lambda _model, _batch: {}, **options)


def by_name(model: Model, optimizer: torch.optim.Optimizer, setting: str) -> dict[str, float]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        names[id(parameter)]: group[setting]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


@pytest.mark.parametrize(
    ("warmup_ratio", "total", "scales"),
    [
        (0.0, 4, [1.0, 0.75, 0.5, 0.25]),
        (1 / 3, 6, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
        (1.0, 4, [0.25, 0.5, 0.75, 1.0]),
        (0.0, 1, [1.0]),
        (1.0, 1, [1.0]),
    ],
    ids=str,
)
def test_the_learning_rate_is_linear_on_both_sides_of_its_peak(
    warmup_ratio: float, total: int, scales: list[float]
) -> None:
    found = [lr_scale(update, total, warmup_ratio) for update in range(1, total + 1)]
    assert found == scales


def test_biases_norms_and_named_modules_have_no_weight_decay(model: Model) -> None:
    optimizer = adamw(model, stage_with(no_weight_decay=("labels",)))
    assert by_name(model, optimizer, "weight_decay") == {
        "encoder.words.weight": 0.3,
        "new_modules.out.weight": 0.3,
        "new_modules.labels.weight": 0.0,
        "encoder.norm.weight": 0.0,
        "encoder.norm.bias": 0.0,
        "new_modules.out.bias": 0.0,
    }
    assert {group["lr"] for group in optimizer.param_groups} == {0.01}


def test_head_lr_mult_applies_to_a_head_that_is_trained_with_the_encoder() -> None:
    training = Training(learning_rate=0.01, head_lr_mult=5.0)
    joint = Stage("joint", training, lambda _model, _batch: {}, lr_scales={"labels": 2.0})
    scales = {name: joint.lr_multiplier_of(name) for name in ("", "head", "labels", "g")}
    assert scales == {"": 1.0, "head": 5.0, "labels": 2.0, "g": 1.0}
    assert replace(joint, frozen_pooling="mean").lr_multiplier_of("head") == 1.0


def test_a_module_can_have_a_scaled_learning_rate(model: Model) -> None:
    peaks = by_name(model, adamw(model, stage_with(lr_scales={"labels": 10.0})), "peak")
    assert peaks.pop("new_modules.labels.weight") == pytest.approx(0.1)
    assert set(peaks.values()) == {0.01}


def test_frozen_parameters_are_not_optimized(model: Model) -> None:
    model.encoder.words.requires_grad_(False)
    assert "encoder.words.weight" not in by_name(model, adamw(model, stage_with()), "lr")
