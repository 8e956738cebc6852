"""Tests of the prediction losses of classes, scores and masked tokens."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sclsearch.objectives import masked_lm, prediction_loss

VOCABULARY = 5


def random_logits(seed: int, places: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(places, VOCABULARY, generator=generator, dtype=torch.float64)


@given(targets=st.lists(st.integers(0, VOCABULARY - 1), max_size=9), seed=st.integers(0, 2**31))
def test_masked_lm_averages_over_tokens(targets: list[int], seed: int) -> None:
    logits = random_logits(seed, len(targets))
    costs = [
        math.log(sum(map(math.exp, row))) - row[target]
        for row, target in zip(logits.tolist(), targets, strict=True)
    ]
    found = masked_lm(logits, torch.tensor(targets, dtype=torch.long))
    assert found.item() == pytest.approx(sum(costs) / max(len(costs), 1))


def test_masked_lm_without_targets_has_value_and_gradient_0() -> None:
    logits = random_logits(0, 0).requires_grad_()
    loss = masked_lm(logits, torch.tensor([], dtype=torch.long))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == 0
    assert gradient.shape == logits.shape


def test_prediction_loss_of_classes_is_cross_entropy() -> None:
    logits, y = [[0.0, 1.0, -2.0], [3.0, 0.5, 0.5]], [1, 2]
    costs = [
        math.log(sum(math.exp(x) for x in row)) - row[label]
        for row, label in zip(logits, y, strict=True)
    ]
    found = prediction_loss(torch.tensor(logits), torch.tensor(y))
    assert found.item() == pytest.approx(sum(costs) / 2)


def test_prediction_loss_of_scores_is_the_mean_squared_error() -> None:
    found = prediction_loss(torch.tensor([1.0, 2.5]), torch.tensor([0.5, 4.0]))
    assert found.item() == pytest.approx((0.25 + 2.25) / 2)


def test_prediction_loss_of_bfloat16_scores_is_in_float32() -> None:
    y = torch.tensor([3.2001], dtype=torch.float32)
    found = prediction_loss(torch.tensor([3.0], dtype=torch.bfloat16), y)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(0.2001**2, rel=1e-4)
