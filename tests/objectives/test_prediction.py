"""Tests of the prediction losses of classes, scores and masked tokens."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sclsearch.objectives import masked_lm, prediction_loss
from sclsearch.objectives.prediction import MlmReduction

VOCABULARY = 5
REDUCTIONS: tuple[MlmReduction, ...] = get_args(MlmReduction)

# Pairs of a target token and the number of its text.
places = st.lists(st.tuples(st.integers(0, VOCABULARY - 1), st.integers(0, 3)), max_size=9)


def random_logits(seed: int, places: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(places, VOCABULARY, generator=generator, dtype=torch.float64)


def split(places: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Return the targets and the text numbers of pairs."""
    both = torch.tensor(places, dtype=torch.long).reshape(-1, 2)
    return both[:, 0], both[:, 1]


@given(places=places, seed=st.integers(0, 2**31))
def test_masked_lm_averages_over_tokens_or_first_within_texts(
    places: list[tuple[int, int]], seed: int
) -> None:
    logits = random_logits(seed, len(places))
    of_text: dict[int, list[float]] = {text: [] for text in range(4)}
    for row, (target, text) in zip(logits.tolist(), places, strict=True):
        of_text[text].append(math.log(sum(map(math.exp, row))) - row[target])
    everything = [cost for costs in of_text.values() for cost in costs]
    expected = {
        "tokens": sum(everything) / max(len(everything), 1),
        "sequences": sum(sum(costs) / max(len(costs), 1) for costs in of_text.values()) / 4,
    }
    for reduction in REDUCTIONS:
        found = masked_lm(logits, *split(places), texts=4, reduction=reduction)
        assert found.item() == pytest.approx(expected[reduction])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_masked_lm_without_targets_has_value_and_gradient_0(reduction: MlmReduction) -> None:
    logits = random_logits(0, 0).requires_grad_()
    loss = masked_lm(logits, *split([]), texts=2, reduction=reduction)
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
