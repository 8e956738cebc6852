"""Contract of every objective: finite values and correct gradients in each precision."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from sclsearch import objectives

Objective = Callable[..., Tensor]

SIZES = {"C": 7, "K": 2, "d": 8}
PATTERNS = {
    "two classes": [0, 1, 0, 1, 1, 0],
    "a lonely class": [0, 0, 1, 1, 1, 2],
    "one class": [3, 3, 3, 3, 3, 3],
    "all different": [0, 1, 2, 3, 4, 5],
    "one row": [0],
}


def without_labels(objective: Objective) -> Objective:
    return lambda *tensors: objective(*tensors[:-1])


# Each objective, whose last argument is the labels, and the shape of each tensor before them as a
# word: B texts, C classes, K views, d width. Tensors after | get no gradient.
CASES: dict[str, tuple[Objective, str]] = {
    "sup_con": (partial(objectives.sup_con, tau=0.05), "Bd"),
    "pair_loss": (objectives.pair_loss, "Bd"),
    "nt_xent": (without_labels(partial(objectives.nt_xent, tau=0.05)), "Bd Bd"),
    "sim_clr": (without_labels(partial(objectives.sim_clr, tau=0.05)), "Bd KBd"),
    "sim_siam": (without_labels(objectives.sim_siam), "Bd KBd | Bd KBd"),
    "label_centered": (partial(objectives.label_centered, tau=0.05), "Bd Cd"),
    "instance_centered": (partial(objectives.instance_centered, tau=0.05), "Bd Cd"),
    "instance_centered heads": (partial(objectives.instance_centered, tau=0.3, heads=4), "Bd Cd"),
    "label_embedding_regularizer": (without_labels(objectives.label_embedding_regularizer), "Bd"),
    "prediction_loss of classes": (objectives.prediction_loss, "Bd"),
    "prediction_loss of scores": (lambda z, y: objectives.prediction_loss(z[:, 0], y / 3), "Bd"),
    "masked_lm": (objectives.masked_lm, "Bd"),
}


@pytest.fixture(params=PATTERNS)
def y(request: pytest.FixtureRequest) -> Tensor:
    return torch.tensor(PATTERNS[request.param])


@pytest.fixture(params=CASES)
def objective(request: pytest.FixtureRequest) -> Objective:
    return CASES[request.param][0]


@pytest.fixture
def tensors(request: pytest.FixtureRequest, y: Tensor) -> list[Tensor]:
    """Return random float64 tensors for the objective; those that it trains require a gradient."""
    generator = torch.Generator().manual_seed(5)
    trained, _, held = CASES[request.node.callspec.params["objective"]][1].partition(" | ")
    words, sizes = f"{trained} {held}".split(), {"B": len(y), **SIZES}
    return [
        torch.randn(
            *(sizes[axis] for axis in word), generator=generator, dtype=torch.float64
        ).requires_grad_(number < len(trained.split()))
        for number, word in enumerate(words)
    ]


def cast(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    return [z.detach().to(dtype).requires_grad_(z.requires_grad) for z in tensors]


def test_every_exported_objective_is_tested_here() -> None:
    assert {name.partition(" ")[0] for name in CASES} == set(objectives.__all__)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
@pytest.mark.parametrize(
    "zeros", [slice(0), slice(1), slice(None)], ids=["no zeros", "one row of 0", "all 0"]
)
def test_value_and_gradients_are_finite_for_all_labels_and_for_zero_rows(
    objective: Objective, tensors: list[Tensor], y: Tensor, dtype: torch.dtype, zeros: slice
) -> None:
    given = cast(tensors, dtype)
    with torch.no_grad():
        for z in given:
            z[..., zeros, :] = 0
    value = objective(*given, y)
    gradients = torch.autograd.grad(value, [z for z in given if z.requires_grad])
    assert value.shape == ()
    assert value.dtype == torch.promote_types(dtype, torch.float32)
    assert value.isfinite()
    assert all(gradient.dtype == dtype for gradient in gradients)
    assert all(gradient.abs().max() < 1e3 for gradient in gradients)


def test_gradients_equal_finite_differences(
    objective: Objective, tensors: list[Tensor], y: Tensor
) -> None:
    assert torch.autograd.gradcheck(lambda *given: objective(*given, y), tensors)


def test_neither_half_precision_inputs_nor_autocast_change_the_value(
    objective: Objective, tensors: list[Tensor], y: Tensor
) -> None:
    for size in (1e-3, 1e3):
        half = [(size * z).half() for z in tensors]
        exact = objective(*(z.double() for z in half), y)
        assert objective(*half, y).item() == pytest.approx(exact.item(), rel=1e-4)
    single = cast(tensors, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = objective(*single, y)
    assert torch.equal(found, objective(*single, y))
