"""Values of the losses on small inputs, worked out by hand from the equations of the papers."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.objectives import (
    label_embedding_regularizer,
    sim_clr,
    sim_siam,
    sup_con,
)


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


ANGLES = torch.tensor([0, 20, 90, 110, 200], dtype=torch.float64).deg2rad()
CIRCLE = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)  # [5, 2]
FIRST = rows([1, 0, 1], [0, 2, 1], [1, 1, 0])
SECOND = rows([1, 1, 1], [0, 1, 1], [2, 1, -1])


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 0, 1, 1, 2], 0.124565),  # the last row has no positive
        ([0, 0, 0, 1, 1], 1.818188),
    ],
)
def test_sup_con_of_five_points_on_a_circle(y: list[int], expected: float) -> None:
    loss = sup_con(CIRCLE, torch.tensor(y), tau=0.3)
    assert loss.item() == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(("class_size", "expected"), [(8, 1.9459), (256, 5.541)])
def test_sup_con_of_perfect_clusters_is_the_log_of_the_positives(
    class_size: int, expected: float
) -> None:
    y = torch.arange(2).repeat(class_size)
    z = (2 * y[:, None] - 1).double() * torch.ones(1, 4, dtype=torch.float64)
    loss = sup_con(z, y, tau=0.05).item()
    assert loss == pytest.approx(math.log(class_size - 1))
    assert loss == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("classes", "expected"), [(2, 0.0), (3, 0.649), (14, 1.517)])
def test_label_embedding_regularizer_of_a_simplex(classes: int, expected: float) -> None:
    corners = torch.eye(classes, dtype=torch.float64) - 1 / classes
    loss = label_embedding_regularizer(corners).item()
    assert loss == pytest.approx(math.exp(1 - 1 / (classes - 1)) - 1, abs=1e-12)
    assert loss == pytest.approx(expected, abs=1e-3)


def test_sim_clr_depends_on_which_view_has_the_anchors() -> None:
    assert sim_clr(FIRST, SECOND[None], tau=0.1).item() == pytest.approx(0.233310, abs=1e-6)
    assert sim_clr(SECOND, FIRST[None], tau=0.1).item() == pytest.approx(0.334634, abs=1e-6)


def test_sim_siam_of_three_texts_with_three_projections() -> None:
    def projected(approximate: str) -> float:
        z0, zk = (F.gelu(h, approximate=approximate) for h in (FIRST, SECOND[None]))
        return sim_siam(z0, zk, FIRST, SECOND[None]).item()

    identity = sim_siam(FIRST, SECOND[None], FIRST, SECOND[None]).item()
    cosines = (0.816497, 0.948683, 0.866025)
    assert identity == pytest.approx(sum(math.exp(-cosine) for cosine in cosines) / 3, abs=1e-6)
    assert identity == pytest.approx(0.416616, abs=1e-6)
    assert projected("none") == pytest.approx(0.413712, abs=1e-6)
    assert projected("tanh") == pytest.approx(0.413717, abs=1e-6)
