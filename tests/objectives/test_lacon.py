"""The losses of LaCon are the paper's sums: loops in Python, another library, closed forms."""

import math
from functools import partial
from itertools import permutations
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning.losses import NormalizedSoftmaxLoss
from torch import Tensor

from sclsearch.objectives import instance_centered, label_centered, label_embedding_regularizer
from sclsearch.objectives.lacon import (
    Denominator,
    PositiveReduction,
    label_scores,
)

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


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


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


def label_centered_in_loops(
    h: Rows, labels: Rows, y: list[int], tau: float, mean: bool, everything: bool
) -> float:
    costs = []
    for p, label in enumerate(labels):
        shares = [math.exp(cosine(label, text) / tau) for text in h]
        positives = [a for a, own in enumerate(y) if own == p]
        below = [b for b, own in enumerate(y) if own != p or everything]
        if positives and below:
            cost = -sum(math.log(shares[a] / sum(shares[b] for b in below)) for a in positives)
            costs.append(cost / len(positives) if mean else cost)
    return sum(costs) / len(costs) if costs else 0.0


@given(y=patterns, seed=seeds, tau=taus, heads=st.sampled_from([1, 2, 3, 6]))
def test_the_instance_centered_loss_is_the_sum_of_the_paper(
    y: list[int], seed: int, tau: float, heads: int
) -> None:
    h, labels = random_rows(seed, len(y)), random_rows(seed + 1, 4)
    expected = instance_centered_in_loops(h.tolist(), labels.tolist(), y, tau, heads)
    found = partial(instance_centered, h, labels, torch.tensor(y), tau=tau, heads=heads)
    assert found().item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert found(head_reduction="mean").item() == pytest.approx(expected / heads, abs=1e-9)


@given(
    y=patterns,
    seed=seeds,
    tau=taus,
    positives=st.sampled_from(get_args(PositiveReduction)),
    below=st.sampled_from(get_args(Denominator)),
)
def test_the_label_centered_loss_is_the_sum_of_the_paper(
    y: list[int], seed: int, tau: float, positives: PositiveReduction, below: Denominator
) -> None:
    h, labels = random_rows(seed, len(y)), random_rows(seed + 1, 4)
    expected = label_centered_in_loops(
        h.tolist(), labels.tolist(), y, tau, positives == "mean", below == "all"
    )
    found = label_centered(
        h, labels, torch.tensor(y), tau=tau, positive_reduction=positives, denominator=below
    )
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-8)


@given(seed=seeds, classes=st.integers(2, 9))
def test_the_regularizer_is_the_mean_over_ordered_pairs(seed: int, classes: int) -> None:
    labels = random_rows(seed, classes)
    costs = [math.exp(1 + cosine(a, b)) - 1 for a, b in permutations(labels.tolist(), 2)]
    mean = label_embedding_regularizer(labels).item()
    assert mean == pytest.approx(sum(costs) / len(costs))
    assert 0 <= mean <= TOP
    total = label_embedding_regularizer(labels, reduction="sum")
    assert total.item() == pytest.approx(sum(costs))


def test_four_texts_and_two_labels_cost_what_was_worked_out() -> None:
    single, both = (instance_centered(H, LABELS, Y, tau=0.5, heads=m).item() for m in (1, 2))
    printed = label_centered(H, LABELS, Y, tau=0.5).item()
    mean = partial(label_centered, H, LABELS, Y, tau=0.5, positive_reduction="mean")
    spread = label_embedding_regularizer(LABELS).item()
    assert single == pytest.approx(0.542481, abs=1e-6)
    assert both == pytest.approx(1.696753, abs=1e-6)
    assert printed == pytest.approx(0.598715, abs=1e-6)
    assert mean().item() == pytest.approx(0.299357, abs=1e-6)
    assert mean(denominator="all").item() == pytest.approx(1.399823, abs=1e-6)
    assert spread == pytest.approx(math.e - 1)
    assert both + printed + 0.5 * spread == pytest.approx(3.154609, abs=1e-6)
    # The last text is as near to both labels, to whichever digit a processor has.
    scores = label_scores(H, LABELS)
    assert scores[:3].argmax(1).tolist() == [0, 0, 0]
    assert scores[3, 0].item() == pytest.approx(scores[3, 1].item())


@pytest.mark.parametrize("tau", [0.05, 0.3, 5.0])
def test_one_head_is_the_normalized_softmax_of_pytorch_metric_learning(tau: float) -> None:
    h, labels, y = random_rows(1, 7), random_rows(2, 4), torch.tensor([0, 1, 2, 3, 3, 1, 3])
    oracle = NormalizedSoftmaxLoss(4, 6, temperature=tau)
    oracle.W = torch.nn.Parameter(labels.T)
    expected = oracle(h, y).item()
    assert instance_centered(h, labels, y, tau=tau).item() == pytest.approx(expected)


def test_products_of_slices_add_up_to_the_whole_cosine() -> None:
    heads = 2
    unit_h, unit_labels = F.normalize(H), F.normalize(LABELS)
    logits = [
        part @ label.T / 0.5
        for part, label in zip(unit_h.chunk(heads, 1), unit_labels.chunk(heads, 1), strict=True)
    ]
    torch.testing.assert_close(sum(logits), label_scores(H, LABELS) / 0.5)
    expected = sum(F.cross_entropy(part, Y).item() for part in logits)
    found = instance_centered(H, LABELS, Y, tau=0.5, heads=heads, head_sim="dot")
    assert found.item() == pytest.approx(expected)


def test_scores_are_cosines_of_whole_vectors_or_the_mean_of_those_of_the_heads() -> None:
    def cosines(part: slice) -> Tensor:
        rows = [[cosine(h[part], label[part]) for label in LABELS.tolist()] for h in H.tolist()]
        return torch.tensor(rows, dtype=torch.float64)

    torch.testing.assert_close(label_scores(H, LABELS, heads=2), cosines(slice(4)))
    expected = (cosines(slice(2)) + cosines(slice(2, 4))) / 2
    found = label_scores(H, LABELS, heads=2, predict="head_mean")
    torch.testing.assert_close(found, expected)


@given(y=patterns, seed=seeds, tau=taus)
def test_a_class_costs_at_least_the_bound_of_its_negatives(
    y: list[int], seed: int, tau: float
) -> None:
    h, labels = random_rows(seed, len(y)), random_rows(seed + 1, 4)
    found = label_centered(h, labels, torch.tensor(y), tau=tau, positive_reduction="mean").item()
    negatives = [len(y) - y.count(p) for p in set(y) if y.count(p) < len(y)]
    bounds = [-2 / tau + math.log(count) for count in negatives]
    assert found >= sum(bounds) / max(len(bounds), 1) - 1e-9


@pytest.mark.parametrize(("positives", "total"), [("mean", -16.129), ("sum", -774.18)])
def test_texts_on_their_label_and_opposite_the_other_reach_the_bound(
    positives: PositiveReduction, total: float
) -> None:
    labels = torch.tensor([[1.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    y = torch.arange(96) % 2
    found = label_centered(labels[y], labels, y, tau=0.1, positive_reduction=positives).item()
    pair = -2 / 0.1 + math.log(48)
    assert found == pytest.approx(pair if positives == "mean" else 48 * pair)
    assert found == pytest.approx(total, abs=0.01)


@pytest.mark.parametrize("positives", get_args(PositiveReduction))
def test_a_batch_of_one_class_has_no_negatives_and_pulls_nowhere(
    positives: PositiveReduction,
) -> None:
    h, labels = H.clone().requires_grad_(), LABELS.clone().requires_grad_()
    y = torch.ones(4, dtype=torch.long)
    loss = label_centered(h, labels, y, tau=0.1, positive_reduction=positives)
    with torch.autograd.set_detect_anomaly(True):  # no step of the way may be NaN either
        gradients = torch.autograd.grad(loss, (h, labels))
    assert loss.item() == 0
    assert all(gradient.count_nonzero() == 0 for gradient in gradients)


def test_with_all_texts_below_equal_texts_of_one_class_cost_the_log_of_their_number() -> None:
    h, y = torch.ones(6, 4, dtype=torch.float64), torch.ones(6, dtype=torch.long)
    found = label_centered(
        h, LABELS, y, tau=0.1, positive_reduction="mean", denominator="all"
    ).item()
    assert found == pytest.approx(math.log(6))
    alone = label_centered(h[:1], LABELS, y[:1], tau=0.1, denominator="all")
    assert alone.item() == pytest.approx(0)


@pytest.mark.parametrize(("classes", "least"), [(2, 0.0), (3, 0.649), (14, 1.517)])
def test_a_simplex_of_label_vectors_costs_the_least(classes: int, least: float) -> None:
    corners = torch.eye(classes, dtype=torch.float64) - 1 / classes
    found = label_embedding_regularizer(corners).item()
    assert found == pytest.approx(math.exp(1 - 1 / (classes - 1)) - 1, abs=1e-12)
    assert found == pytest.approx(least, abs=1e-3)
    assert found <= label_embedding_regularizer(random_rows(0, classes)).item()


def test_label_vectors_of_one_direction_cost_the_most_and_one_alone_nothing() -> None:
    labels = torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0]], dtype=torch.float64)
    assert label_embedding_regularizer(labels).item() == pytest.approx(TOP)
    assert label_embedding_regularizer(labels[:1]).item() == 0


@pytest.mark.parametrize("objective", [instance_centered, label_centered])
def test_texts_and_label_vectors_may_come_in_different_precisions(objective: Any) -> None:
    h, labels = H.bfloat16(), LABELS.float()
    expected = objective(h.float(), labels, Y, tau=0.1)
    assert torch.equal(objective(h, labels, Y, tau=0.1), expected)
