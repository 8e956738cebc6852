"""Tests of each loss against loops over its equation, in plain Python."""

import math
from itertools import permutations
from statistics import fmean, pstdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sclsearch.objectives import (
    instance_centered,
    label_centered,
    label_embedding_regularizer,
    masked_lm,
    nt_xent,
    pair_loss,
    prediction_loss,
    sim_clr,
    sim_siam,
    sup_con,
)
from sclsearch.objectives.contrastive import feature_spread

Row = list[float]
Rows = list[Row]

WIDTH = 6
seeds = st.integers(0, 2**31)
taus = st.floats(0.05, 5)
counts = st.integers(1, 6)
labels_of_rows = st.lists(st.integers(0, 3), min_size=1, max_size=9)


def normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def cosine(a: Row, b: Row) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def costs_of(anchor: Row, candidates: Rows, tau: float) -> Row:
    """Return -log of the softmax over the candidates of their cosine with the anchor."""
    weights = [math.exp(cosine(anchor, row) / tau) for row in candidates]
    return [-math.log(weight / sum(weights)) for weight in weights]


def sup_con_in_loops(z: Rows, y: list[int], tau: float) -> float:
    anchors = []
    for i, anchor in enumerate(z):
        others = [j for j in range(len(z)) if j != i]
        costs = costs_of(anchor, [z[j] for j in others], tau)
        positive = [cost for j, cost in zip(others, costs, strict=True) if y[j] == y[i]]
        if positive:
            anchors.append(fmean(positive))
    return fmean(anchors) if anchors else 0.0


@given(y=labels_of_rows, seed=seeds, tau=taus)
def test_sup_con_is_the_mean_over_anchors_with_positives(
    y: list[int], seed: int, tau: float
) -> None:
    z = normal(seed, len(y), WIDTH)
    expected = sup_con_in_loops(z.tolist(), y, tau)
    assert sup_con(z, torch.tensor(y), tau=tau).item() == pytest.approx(expected, abs=1e-9)


@given(y=labels_of_rows, seed=seeds)
def test_pair_loss_gives_pairs_of_one_class_and_of_two_the_same_weight(
    y: list[int], seed: int
) -> None:
    z = normal(seed, len(y), WIDTH)
    errors: dict[bool, Row] = {True: [], False: []}
    for i, j in permutations(range(len(y)), 2):
        same = y[i] == y[j]
        errors[same].append((same - cosine(z[i].tolist(), z[j].tolist())) ** 2)
    expected = sum(fmean(own) for own in errors.values() if own) / 2
    assert pair_loss(z, torch.tensor(y)).item() == pytest.approx(expected, abs=1e-9)


@given(seed=seeds, texts=counts, tau=taus)
def test_nt_xent_has_both_views_of_a_text_as_positives(seed: int, texts: int, tau: float) -> None:
    a, b = normal(seed, 2, texts, WIDTH)
    expected = sup_con_in_loops([*a.tolist(), *b.tolist()], [*range(texts)] * 2, tau)
    assert nt_xent(a, b, tau=tau).item() == pytest.approx(expected, abs=1e-9)


@given(seed=seeds, views=counts, texts=counts, tau=taus)
def test_sim_clr_has_the_first_views_as_anchors(
    seed: int, views: int, texts: int, tau: float
) -> None:
    h0, *hk = normal(seed, views + 1, texts, WIDTH)
    expected = fmean(
        costs_of(anchor, view.tolist(), tau)[b]
        for view in hk
        for b, anchor in enumerate(h0.tolist())
    )
    found = sim_clr(h0, torch.stack(hk), tau=tau).item()
    assert found == pytest.approx(expected, abs=1e-9)


@given(seed=seeds, views=counts, texts=counts)
def test_sim_siam_compares_predictions_with_the_other_view(
    seed: int, views: int, texts: int
) -> None:
    z0, h0 = normal(seed, 2, texts, WIDTH)
    zk, hk = normal(seed + 1, 2, views, texts, WIDTH)
    halves = [
        (cosine(zk[k, b].tolist(), h0[b].tolist()) + cosine(z0[b].tolist(), hk[k, b].tolist())) / 2
        for k in range(views)
        for b in range(texts)
    ]
    found = sim_siam(z0, zk, h0, hk).item()
    assert found == pytest.approx(fmean(math.exp(-half) for half in halves))


def test_sim_siam_has_no_gradient_into_its_targets() -> None:
    z0, zk, h0, hk = tensors = [normal(seed, 3, WIDTH).requires_grad_() for seed in range(4)]
    loss = sim_siam(z0, zk[None], h0, hk[None])
    into = torch.autograd.grad(loss, tensors, allow_unused=True, materialize_grads=True)
    assert [bool(gradient.any()) for gradient in into] == [True, True, False, False]


@given(seed=seeds, rows=counts)
def test_feature_spread_is_the_deviation_of_directions_without_gradient(
    seed: int, rows: int
) -> None:
    h = normal(seed, rows, WIDTH).bfloat16().requires_grad_()
    directions = [[x / math.hypot(*row) for x in row] for row in h.tolist()]
    deviations = [pstdev(column) for column in zip(*directions, strict=True)]
    found = feature_spread(h)
    assert found.item() == pytest.approx(math.sqrt(WIDTH) * fmean(deviations), abs=1e-6)
    assert found.dtype == torch.float32
    assert not found.requires_grad


@given(y=labels_of_rows, seed=seeds, tau=taus, heads=st.sampled_from([1, 2, 3, 6]))
def test_instance_centered_sums_over_slices_and_averages_over_texts(
    y: list[int], seed: int, tau: float, heads: int
) -> None:
    h, labels = normal(seed, len(y), WIDTH), normal(seed + 1, 4, WIDTH)
    expected = 0.0
    for texts, vectors in zip(h.chunk(heads, 1), labels.chunk(heads, 1), strict=True):
        costs = [costs_of(text, vectors.tolist(), tau) for text in texts.tolist()]
        expected += fmean(cost[own] for cost, own in zip(costs, y, strict=True))
    found = instance_centered(h, labels, torch.tensor(y), tau=tau, heads=heads)
    assert found.item() == pytest.approx(expected, abs=1e-9)


@given(y=labels_of_rows, seed=seeds, tau=taus)
def test_label_centered_has_only_texts_of_other_labels_in_the_denominator(
    y: list[int], seed: int, tau: float
) -> None:
    h, labels = normal(seed, len(y), WIDTH), normal(seed + 1, 4, WIDTH)
    costs = []
    for p, label in enumerate(labels.tolist()):
        shares = [math.exp(cosine(label, text) / tau) for text in h.tolist()]
        below = sum(share for share, own in zip(shares, y, strict=True) if own != p)
        positive = [share for share, own in zip(shares, y, strict=True) if own == p]
        if positive and below:
            costs.append(-sum(math.log(share / below) for share in positive))
    found = label_centered(h, labels, torch.tensor(y), tau=tau)
    assert found.item() == pytest.approx(fmean(costs) if costs else 0.0, abs=1e-8)


@given(seed=seeds, classes=counts)
def test_the_label_regularizer_averages_over_pairs(seed: int, classes: int) -> None:
    labels = normal(seed, classes, WIDTH)
    costs = [math.exp(1 + cosine(a, b)) - 1 for a, b in permutations(labels.tolist(), 2)]
    found = label_embedding_regularizer(labels).item()
    assert found == pytest.approx(fmean(costs) if costs else 0.0)


@given(targets=st.lists(st.integers(0, 3), max_size=9), seed=seeds)
def test_masked_lm_and_prediction_loss_are_mean_cross_entropies(
    targets: list[int], seed: int
) -> None:
    logits, y = normal(seed, len(targets), 4), torch.tensor(targets, dtype=torch.long)
    costs = [
        math.log(sum(map(math.exp, row))) - row[target]
        for row, target in zip(logits.tolist(), targets, strict=True)
    ]
    assert masked_lm(logits, y).item() == pytest.approx(fmean(costs) if costs else 0.0)
    if targets:
        assert prediction_loss(logits, y).item() == pytest.approx(fmean(costs))
        weights = [0.5, 1.0, 2.0, 4.0]
        own = [weights[target] for target in targets]
        found = prediction_loss(logits, y, torch.tensor(weights)).item()
        assert found == pytest.approx(fmean(costs, own))


def test_prediction_loss_of_scores_is_the_mean_squared_error() -> None:
    found = prediction_loss(torch.tensor([1.0, 2.5]).bfloat16(), torch.tensor([0.5, 4.001]))
    assert found.item() == pytest.approx((0.5**2 + 1.501**2) / 2)
