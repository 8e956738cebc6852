"""nt_xent and sim_clr are the papers' sums: loops in Python, another library, closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning.losses import NTXentLoss
from torch import Tensor

from sclsearch.objectives import nt_xent, sim_clr

Rows = list[list[float]]

FIRST = torch.tensor([[1, 0, 1], [0, 2, 1], [1, 1, 0]], dtype=torch.float64)
SECOND = torch.tensor([[1, 1, 1], [0, 1, 1], [2, 1, -1]], dtype=torch.float64)

seeds = st.integers(0, 2**31)
taus = st.floats(0.05, 5)


def random_views(seed: int, views: int, texts: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(views, texts, 4, generator=generator, dtype=torch.float64)


def shares(anchor: list[float], candidates: Rows, tau: float) -> list[float]:
    """Returns the softmax over the candidates of their cosine with the anchor."""
    cosines = [
        sum(x * y for x, y in zip(anchor, row, strict=True))
        / (math.hypot(*anchor) * math.hypot(*row))
        for row in candidates
    ]
    below = sum(math.exp(cosine / tau) for cosine in cosines)
    return [math.exp(cosine / tau) / below for cosine in cosines]


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
def test_nt_xent_is_the_mean_over_both_views_as_anchors(seed: int, texts: int, tau: float) -> None:
    a, b = random_views(seed, 2, texts)
    found = nt_xent(a, b, tau=tau).item()
    assert found == pytest.approx(nt_xent_in_loops(a.tolist(), b.tolist(), tau), abs=1e-9)
    assert found >= 0


@given(seed=seeds, texts=st.integers(2, 6), tau=taus)
def test_nt_xent_agrees_with_pytorch_metric_learning(seed: int, texts: int, tau: float) -> None:
    a, b = random_views(seed, 2, texts)
    expected = NTXentLoss(temperature=tau)(torch.cat([a, b]), torch.arange(texts).repeat(2))
    assert nt_xent(a, b, tau=tau).item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-9)


@given(seed=seeds, views=st.integers(1, 3), texts=st.integers(1, 6), tau=taus)
def test_sim_clr_is_the_sum_of_the_paper(seed: int, views: int, texts: int, tau: float) -> None:
    h0, *hk = random_views(seed, views + 1, texts)
    found = sim_clr(h0, torch.stack(hk), tau=tau).item()
    expected = sim_clr_in_loops(h0.tolist(), [view.tolist() for view in hk], tau)
    assert found == pytest.approx(expected, abs=1e-9)
    assert found >= 0


def test_the_roles_of_anchor_and_candidate_are_those_that_were_worked_out() -> None:
    assert sim_clr(FIRST, SECOND[None], tau=0.1).item() == pytest.approx(0.233310, abs=1e-6)
    assert sim_clr(SECOND, FIRST[None], tau=0.1).item() == pytest.approx(0.334634, abs=1e-6)


def test_sim_clr_is_cross_entropy_of_rows_of_cosines() -> None:
    logits = F.normalize(FIRST) @ F.normalize(SECOND).T / 0.1
    expected = F.cross_entropy(logits, torch.arange(3))
    assert sim_clr(FIRST, SECOND[None], tau=0.1).item() == pytest.approx(expected.item())


def test_nt_xent_is_the_same_from_either_view() -> None:
    found = nt_xent(FIRST, SECOND, tau=0.1).item()
    assert found == pytest.approx(nt_xent(SECOND, FIRST, tau=0.1).item())


@pytest.mark.parametrize("texts", [2, 9])
def test_identical_texts_cost_the_log_of_the_candidates(texts: int) -> None:
    h = torch.ones(texts, 4, dtype=torch.float64)
    assert nt_xent(h, h, tau=0.1).item() == pytest.approx(math.log(2 * texts - 1))
    assert sim_clr(h, h.expand(3, -1, -1), tau=0.1).item() == pytest.approx(math.log(texts))


def test_one_text_alone_costs_nothing_and_pulls_nowhere() -> None:
    a, b = FIRST[:1].clone().requires_grad_(), SECOND[:1].clone().requires_grad_()
    for loss in (nt_xent(a, b, tau=0.1), sim_clr(a, b[None], tau=0.1)):
        assert loss.item() == 0
        gradients = torch.autograd.grad(loss, (a, b))
        assert all(gradient.count_nonzero() == 0 for gradient in gradients)
