"""Tests of sup_con against Python loops, another library and closed forms."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning.losses import SupConLoss
from torch import Tensor

from sclsearch.objectives import sup_con


def anchors_in_loops(z: list[list[float]], y: list[int], tau: float) -> list[tuple[float, int]]:
    """Return the loss of each anchor by the equation, and the number of its positives."""
    lengths = [math.hypot(*row) for row in z]
    units = [[x / length for x in row] for row, length in zip(z, lengths, strict=True)]
    found = []
    for i, anchor in enumerate(units):
        others = [j for j in range(len(y)) if j != i]
        similar = {j: sum(a * b for a, b in zip(anchor, units[j], strict=True)) for j in others}
        positives = [j for j in others if y[j] == y[i]]
        cost = 0.0
        for p in positives:
            below = sum(math.exp((similar[a] - similar[p]) / tau) for a in others)
            cost -= math.log(1 / below) / len(positives)
        found.append((cost, len(positives)))
    return found


def random_rows(seed: int, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 3, generator=generator, dtype=torch.float64)


@given(
    y=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    seed=st.integers(0, 2**31),
    tau=st.floats(0.05, 5),
)
def test_sup_con_equals_loops_of_the_equation(y: list[int], seed: int, tau: float) -> None:
    z = random_rows(seed, len(y))
    found = sup_con(z, torch.tensor(y), tau=tau)
    anchors = anchors_in_loops(z.tolist(), y, tau)
    valid = sum(positives > 0 for _, positives in anchors)
    expected = sum(cost for cost, _ in anchors) / max(valid, 1)
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    y=st.lists(st.integers(0, 3), min_size=3, max_size=12).filter(
        lambda y: 1 < len(set(y)) < len(y)
    ),
    seed=st.integers(0, 2**31),
    tau=st.floats(0.05, 5),
)
def test_the_mean_over_valid_anchors_equals_pytorch_metric_learning(
    y: list[int], seed: int, tau: float
) -> None:
    z, labels = random_rows(seed, len(y)), torch.tensor(y)
    expected = SupConLoss(temperature=tau)(z, labels)
    assert sup_con(z, labels, tau=tau).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("tau", [0.05, 0.3, 5.0])
def test_identical_embeddings_give_the_log_of_the_number_of_other_rows(tau: float) -> None:
    z, texts = torch.ones(16, 10, dtype=torch.float64), torch.arange(8).repeat(2)
    assert sup_con(z, texts, tau=tau).item() == pytest.approx(math.log(15))


@pytest.mark.parametrize("y", [[0, 1], [0], [0, 1, 2]], ids=str)
def test_rows_without_positives_have_value_and_gradient_0(y: list[int]) -> None:
    z = random_rows(0, len(y)).requires_grad_()
    loss = sup_con(z, torch.tensor(y), tau=0.1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert z.grad is not None
    assert z.grad.count_nonzero() == 0
