"""Tests of LaCon's losses against Python loops, another library and closed forms."""

import math
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sclsearch.objectives import instance_centered, label_centered, label_embedding_regularizer
from tests.objectives.conftest import cosine

Rows = list[list[float]]

H = torch.tensor([[1, 2, 0, 1], [0, 1, 1, -1], [2, 0, 1, 1], [-1, 1, 2, 0]], dtype=torch.float64)
LABELS = torch.tensor([[1, 1, 0, 1], [1, -1, 1, 0]], dtype=torch.float64)
Y = torch.tensor([0, 1, 0, 1])
TOP = math.e**2 - 1

patterns = st.lists(st.integers(0, 3), min_size=1, max_size=8)
seeds = st.integers(0, 2**31)
taus = st.floats(0.05, 5)


def random_rows(seed: int, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 6, generator=generator, dtype=torch.float64)


def instance_centered_in_loops(
    h: Rows, labels: Rows, y: list[int], tau: float, heads: int
) -> float:
    width, total = len(h[0]) // heads, 0.0
    for k in range(heads):
        part = slice(k * width, (k + 1) * width)
        for text, own in zip(h, y, strict=True):
            shares = [math.exp(cosine(text[part], label[part]) / tau) for label in labels]
            total -= math.log(shares[own] / sum(shares))
    return total / len(h)


def label_centered_in_loops(h: Rows, labels: Rows, y: list[int], tau: float) -> float:
    costs = []
    for p, label in enumerate(labels):
        shares = [math.exp(cosine(label, text) / tau) for text in h]
        positives = [a for a, own in enumerate(y) if own == p]
        below = [b for b, own in enumerate(y) if own != p]
        if positives and below:
            total = sum(shares[b] for b in below)
            costs.append(-sum(math.log(shares[a] / total) for a in positives))
    return sum(costs) / len(costs) if costs else 0.0


@given(y=patterns, seed=seeds, tau=taus, heads=st.sampled_from([1, 2, 3, 6]))
def test_instance_centered_equals_loops_of_the_equation(
    y: list[int], seed: int, tau: float, heads: int
) -> None:
    h, labels = random_rows(seed, len(y)), random_rows(seed + 1, 4)
    expected = instance_centered_in_loops(h.tolist(), labels.tolist(), y, tau, heads)
    found = instance_centered(h, labels, torch.tensor(y), tau=tau, heads=heads)
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(y=patterns, seed=seeds, tau=taus)
def test_label_centered_equals_loops_of_the_equation(y: list[int], seed: int, tau: float) -> None:
    h, labels = random_rows(seed, len(y)), random_rows(seed + 1, 4)
    expected = label_centered_in_loops(h.tolist(), labels.tolist(), y, tau)
    found = label_centered(h, labels, torch.tensor(y), tau=tau)
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-8)


@given(seed=seeds, classes=st.integers(2, 9))
def test_label_embedding_regularizer_equals_loops_over_pairs(seed: int, classes: int) -> None:
    labels = random_rows(seed, classes)
    costs = [math.exp(1 + cosine(a, b)) - 1 for a, b in permutations(labels.tolist(), 2)]
    mean = label_embedding_regularizer(labels).item()
    assert mean == pytest.approx(sum(costs) / len(costs))
    assert 0 <= mean <= TOP


def test_label_centered_of_one_class_has_value_and_gradient_0() -> None:
    h, labels = H.clone().requires_grad_(), LABELS.clone().requires_grad_()
    y = torch.ones(4, dtype=torch.long)
    loss = label_centered(h, labels, y, tau=0.1)
    with torch.autograd.set_detect_anomaly(True):  # fails at intermediate NaN gradients too
        gradients = torch.autograd.grad(loss, (h, labels))
    assert loss.item() == 0
    assert all(gradient.count_nonzero() == 0 for gradient in gradients)


def test_the_regularizer_is_maximal_for_parallel_vectors_and_0_for_one_vector() -> None:
    labels = torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0]], dtype=torch.float64)
    assert label_embedding_regularizer(labels).item() == pytest.approx(TOP)
    assert label_embedding_regularizer(labels[:1]).item() == 0


@pytest.mark.parametrize("objective", [instance_centered, label_centered])
def test_texts_and_label_vectors_may_have_different_dtypes(objective: Any) -> None:
    h, labels = H.bfloat16(), LABELS.float()
    expected = objective(h.float(), labels, Y, tau=0.1)
    assert torch.equal(objective(h, labels, Y, tau=0.1), expected)
