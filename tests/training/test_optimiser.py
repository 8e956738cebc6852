"""The rate rises and falls in straight lines; weights decay, biases and norms do not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sclsearch.methods.base import Training
from sclsearch.training.optimiser import adamw, clip, rate_factor


@pytest.fixture
def model() -> nn.Module:
    return nn.ModuleDict(
        {"words": nn.Embedding(5, 4), "norm": nn.LayerNorm(4), "out": nn.Linear(4, 2)}
    )


@pytest.mark.parametrize(
    ("warmup", "total", "factors"),
    [
        (0, 4, [1.0, 0.75, 0.5, 0.25]),
        (2, 6, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
        (4, 4, [0.25, 0.5, 0.75, 1.0]),
        (0, 1, [1.0]),
        (1, 1, [1.0]),
    ],
    ids=str,
)
def test_the_rate_is_linear_on_both_sides_of_its_peak(
    warmup: int, total: int, factors: list[float]
) -> None:
    assert [rate_factor(update, warmup, total) for update in range(total)] == factors


@given(total=st.integers(1, 500), ratio=st.floats(0, 1))
def test_every_update_has_some_rate_and_the_peak_is_reached(total: int, ratio: float) -> None:
    warmup = round(total * ratio)
    factors = [rate_factor(update, warmup, total) for update in range(total)]
    assert all(0 < factor <= 1 for factor in factors)
    assert max(factors) == 1
    peak = factors.index(1)
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)


def test_matrices_decay_and_biases_and_norms_do_not(model: nn.Module) -> None:
    optimiser = adamw(model, Training(learning_rate=0.01, weight_decay=0.3))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decay = {
        names[id(parameter)]: group["weight_decay"]
        for group in optimiser.param_groups
        for parameter in group["params"]
    }
    assert decay == {
        "words.weight": 0.3,
        "out.weight": 0.3,
        "norm.weight": 0.0,
        "norm.bias": 0.0,
        "out.bias": 0.0,
    }
    assert {group["lr"] for group in optimiser.param_groups} == {0.01}


def test_what_is_frozen_is_left_out(model: nn.ModuleDict) -> None:
    model["words"].requires_grad_(False)
    groups = adamw(model, Training()).param_groups
    assert sum(len(group["params"]) for group in groups) == 4


@pytest.mark.parametrize(
    ("max_norm", "norm"), [(0.0, 50.0), (1.0, 1.0), (25.0, 25.0), (100.0, 50.0)]
)
def test_gradients_are_scaled_down_to_the_norm(
    model: nn.ModuleDict, max_norm: float, norm: float
) -> None:
    model["out"].weight.grad = torch.full((2, 4), 10.0)
    model["norm"].bias.grad = torch.tensor([30.0, 20.0, -20.0, 0.0])
    clip(model, max_norm)
    found = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert found.norm().item() == pytest.approx(norm, rel=1e-4)
    assert found[0] == pytest.approx(30 * norm / 50, rel=1e-4)
