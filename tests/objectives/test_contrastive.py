"""Tests of the contrastive losses, with and without labels."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning.losses import SupConLoss
from torch import Tensor

from sclsearch.objectives import nt_xent, sim_clr, sim_siam, sup_con
from sclsearch.objectives.contrastive import feature_spread
from tests.objectives.conftest import cosine


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


@pytest.mark.parametrize("y", [[0, 1], [0], [0, 1, 2]], ids=str)
def test_rows_without_positives_have_value_and_gradient_0(y: list[int]) -> None:
    z = random_rows(0, len(y)).requires_grad_()
    loss = sup_con(z, torch.tensor(y), tau=0.1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert z.grad is not None
    assert z.grad.count_nonzero() == 0


Rows = list[list[float]]

FIRST = torch.tensor([[1, 0, 1], [0, 2, 1], [1, 1, 0]], dtype=torch.float64)
SECOND = torch.tensor([[1, 1, 1], [0, 1, 1], [2, 1, -1]], dtype=torch.float64)

seeds = st.integers(0, 2**31)
taus = st.floats(0.05, 5)


def random_states(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def shares(anchor: list[float], candidates: Rows, tau: float) -> list[float]:
    """Return the softmax over the candidates of their cosine with the anchor."""
    weights = [math.exp(cosine(anchor, row) / tau) for row in candidates]
    return [weight / sum(weights) for weight in weights]


def nt_xent_in_loops(a: Rows, b: Rows, tau: float) -> float:
    total = 0.0
    for own, other in ((a, b), (b, a)):
        for i, anchor in enumerate(own):
            rest = [row for j, row in enumerate(own) if j != i]
            total -= math.log(shares(anchor, other + rest, tau)[i])
    return total / (2 * len(a))


def sim_clr_in_loops(h0: Rows, hk: list[Rows], tau: float) -> float:
    costs = [-math.log(shares(anchor, view, tau)[b]) for view in hk for b, anchor in enumerate(h0)]
    return sum(costs) / len(costs)


@given(seed=seeds, texts=st.integers(1, 6), tau=taus)
def test_nt_xent_equals_loops_of_the_equation(seed: int, texts: int, tau: float) -> None:
    a, b = random_states(seed, 2, texts, 4)
    found = nt_xent(a, b, tau=tau).item()
    assert found == pytest.approx(nt_xent_in_loops(a.tolist(), b.tolist(), tau), abs=1e-9)
    assert found >= 0


@given(seed=seeds, views=st.integers(1, 3), texts=st.integers(1, 6), tau=taus)
def test_sim_clr_equals_loops_of_the_equation(
    seed: int, views: int, texts: int, tau: float
) -> None:
    h0, *hk = random_states(seed, views + 1, texts, 4)
    found = sim_clr(h0, torch.stack(hk), tau=tau).item()
    expected = sim_clr_in_loops(h0.tolist(), [view.tolist() for view in hk], tau)
    assert found == pytest.approx(expected, abs=1e-9)
    assert found >= 0


def test_one_text_has_value_and_gradient_0() -> None:
    a, b = FIRST[:1].clone().requires_grad_(), SECOND[:1].clone().requires_grad_()
    for loss in (nt_xent(a, b, tau=0.1), sim_clr(a, b[None], tau=0.1)):
        assert loss.item() == 0
        gradients = torch.autograd.grad(loss, (a, b))
        assert all(gradient.count_nonzero() == 0 for gradient in gradients)


@given(seed=seeds, views=st.integers(1, 3), texts=st.integers(1, 5))
def test_sim_siam_equals_loops_of_both_equations(seed: int, views: int, texts: int) -> None:
    z0, h0 = random_states(seed, 2, texts, 4)
    zk, hk = random_states(seed + 1, 2, views, texts, 4)
    halves = [
        (cosine(zk[k, b].tolist(), h0[b].tolist()) + cosine(z0[b].tolist(), hk[k, b].tolist())) / 2
        for k in range(views)
        for b in range(texts)
    ]
    found = sim_siam(z0, zk, h0, hk).item()
    assert found == pytest.approx(sum(math.exp(-half) for half in halves) / len(halves))
    assert 1 / math.e <= found <= math.e


def test_sim_siam_has_gradients_for_predictions_only() -> None:
    z0, zk, h0, hk = (
        t.clone().requires_grad_() for t in (FIRST, SECOND[None], SECOND, FIRST[None])
    )
    loss = sim_siam(z0, 2 + zk, h0, 3 + hk)
    into = torch.autograd.grad(loss, (z0, zk, h0, hk), allow_unused=True, materialize_grads=True)
    assert [bool(gradient.any()) for gradient in into] == [True, True, False, False]


@given(seed=seeds, rows=st.integers(1, 9))
def test_feature_spread_equals_loops_and_is_between_0_and_1(seed: int, rows: int) -> None:
    h = random_states(seed, rows, 4)
    directions = [[x / math.hypot(*row) for x in row] for row in h.tolist()]
    deviations = []
    for column in zip(*directions, strict=True):
        mean = sum(column) / rows
        deviations.append(math.sqrt(sum((x - mean) ** 2 for x in column) / rows))
    found = feature_spread(h).item()
    assert found == pytest.approx(sum(deviations) / 4 * math.sqrt(4))
    assert 0 <= found <= 1


def test_feature_spread_is_1_for_even_and_0_for_collapsed_features() -> None:
    axes = torch.cat([torch.eye(5), -torch.eye(5)])
    assert feature_spread(axes).item() == pytest.approx(1)
    collapsed = torch.tensor([[1.0], [2.0], [0.1]]) * torch.tensor([[1.0, -2.0, 0.5]])
    assert feature_spread(collapsed).item() == pytest.approx(0, abs=1e-6)
    assert feature_spread(axes[:1]).item() == 0
    assert feature_spread(torch.zeros(3, 5)).item() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_feature_spread_is_float32_without_gradient(dtype: torch.dtype) -> None:
    h = random_states(0, 6, 4).to(dtype).requires_grad_()
    found = feature_spread(h)
    assert not found.requires_grad
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(feature_spread(h.double()).item(), rel=1e-5)
