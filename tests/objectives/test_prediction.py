"""prediction_loss is cross-entropy of logits and squared error of scores."""

import math

import pytest
import torch

from sclsearch.objectives import prediction_loss


def test_classes_cost_the_mean_negative_log_of_their_share() -> None:
    logits, y = [[0.0, 1.0, -2.0], [3.0, 0.5, 0.5]], [1, 2]
    costs = [
        math.log(sum(math.exp(x) for x in row)) - row[label]
        for row, label in zip(logits, y, strict=True)
    ]
    found = prediction_loss(torch.tensor(logits), torch.tensor(y))
    assert found.item() == pytest.approx(sum(costs) / 2)


def test_equal_logits_cost_the_log_of_the_classes() -> None:
    found = prediction_loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 2]))
    assert found.item() == pytest.approx(math.log(3))


def test_scores_cost_the_mean_square_of_their_error() -> None:
    found = prediction_loss(torch.tensor([1.0, 2.5]), torch.tensor([0.5, 4.0]))
    assert found.item() == pytest.approx((0.25 + 2.25) / 2)


def test_scores_in_half_precision_are_compared_with_the_whole_truth() -> None:
    y = torch.tensor([3.2001], dtype=torch.float32)
    found = prediction_loss(torch.tensor([3.0], dtype=torch.bfloat16), y)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(0.2001**2, rel=1e-4)
