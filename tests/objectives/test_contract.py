"""Contract of every objective: finite values, correct gradients, and invariances."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor

from sclsearch import objectives
from sclsearch.objectives import (
    instance_centered,
    label_centered,
    label_embedding_regularizer,
    masked_lm,
    nt_xent,
    prediction_loss,
    sim_clr,
    sim_siam,
    sup_con,
)
from tests.objectives.conftest import Draw

Objective = Callable[..., Tensor]

WIDTH, CLASSES, VIEWS = 8, 7, 2


@dataclass(frozen=True)
class Case:
    """Objective with the shapes of its tensors; the labels are its last argument.

    Attributes:
        call: The objective.
        axes: Shape of each tensor as a word: B texts, C classes, K views, d width.
        held: Shapes of the following tensors, which get no gradient.
    """

    call: Objective
    axes: str
    held: str = ""

    def tensors(self, texts: int, draw: Draw, *outer: int) -> list[Tensor]:
        """Return random tensors, those without a gradient last."""
        sizes = {"B": texts, "C": CLASSES, "K": VIEWS, "d": WIDTH}
        words = f"{self.axes} {self.held}".split()
        return [draw(*outer, *(sizes[axis] for axis in word)) for word in words]

    def learn(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors as leaves; those of `axes` require a gradient."""
        learned = len(self.axes.split())
        return [z.detach().requires_grad_(i < learned) for i, z in enumerate(tensors)]


def without_labels(objective: Objective) -> Objective:
    return lambda *tensors: objective(*tensors[:-1])


CONTRASTS = {f"sup_con {tau}": Case(partial(sup_con, tau=tau), "Bd") for tau in (0.05, 0.3)}
LABEL_ANCHORED = {
    "label_centered": Case(partial(label_centered, tau=0.05), "Bd Cd"),
    "instance_centered": Case(partial(instance_centered, tau=0.05), "Bd Cd"),
    "label_embedding_regularizer": Case(without_labels(label_embedding_regularizer), "Bd"),
}
HEADS = {"instance_centered heads": Case(partial(instance_centered, tau=0.3, heads=4), "Bd Cd")}
VIEW_PAIRS = {
    "nt_xent": Case(without_labels(partial(nt_xent, tau=0.05)), "Bd Bd"),
    "sim_clr": Case(without_labels(partial(sim_clr, tau=0.05)), "Bd KBd"),
    "sim_siam": Case(without_labels(sim_siam), "Bd KBd", held="Bd KBd"),
}
SCORES = {
    "prediction_loss of classes": Case(prediction_loss, "Bd"),
    "prediction_loss of scores": Case(lambda z, y: prediction_loss(z[:, 0], y.to(z.dtype)), "Bd"),
    "masked_lm": Case(masked_lm, "Bd"),
}
ROTATABLE = {**CONTRASTS, **LABEL_ANCHORED, **VIEW_PAIRS}
COSINES = {**ROTATABLE, **HEADS}
EVERY = {**COSINES, **SCORES}


@pytest.fixture(params=EVERY)
def case(request: pytest.FixtureRequest) -> Case:
    return EVERY[request.param]


@pytest.fixture(params=COSINES)
def cosine(request: pytest.FixtureRequest) -> Case:
    return COSINES[request.param]


def value_and_gradients(
    case: Case, tensors: Sequence[Tensor], y: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    leaves = case.learn(tensors)
    value = case.call(*leaves, y)
    return value.detach(), torch.autograd.grad(value, [z for z in leaves if z.requires_grad])


def test_every_exported_objective_is_tested_here() -> None:
    assert {name.partition(" ")[0] for name in EVERY} == set(objectives.__all__)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_value_and_gradients_are_finite_on_every_label_pattern(
    case: Case, y: Tensor, dtype: torch.dtype, draw: Draw
) -> None:
    tensors = [z.to(dtype) for z in case.tensors(len(y), draw)]
    value, gradients = value_and_gradients(case, tensors, y)
    assert value.shape == ()
    assert value.dtype == torch.promote_types(dtype, torch.float32)
    assert value.isfinite()
    assert all(gradient.dtype == dtype for gradient in gradients)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("zeros", [slice(0, 1), slice(None)], ids=["one row", "all rows"])
def test_value_and_gradients_are_finite_for_zero_rows(
    case: Case, y: Tensor, dtype: torch.dtype, zeros: slice, draw: Draw
) -> None:
    tensors = [z.to(dtype) for z in case.tensors(len(y), draw)]
    for z in tensors:
        z[..., zeros, :] = 0
    value, gradients = value_and_gradients(case, tensors, y)
    assert value.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert all(gradient.abs().max() < 1e3 for gradient in gradients)


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_half_precision_inputs_give_the_value_of_float64(
    case: Case, y: Tensor, size: float, draw: Draw
) -> None:
    tensors = [(size * z).half() for z in case.tensors(len(y), draw)]
    exact = case.call(*(z.double() for z in tensors), y)
    assert case.call(*tensors, y).item() == pytest.approx(exact.item(), rel=1e-4)


def test_gradients_equal_finite_differences(case: Case, y: Tensor, draw: Draw) -> None:
    leaves = case.learn(case.tensors(len(y), draw))
    assert torch.autograd.gradcheck(lambda *tensors: case.call(*tensors, y), leaves)


def test_the_value_is_invariant_to_row_order(case: Case, y: Tensor, draw: Draw) -> None:
    tensors, order = case.tensors(len(y), draw), torch.arange(len(y)).roll(2).flip(0)
    words = f"{case.axes} {case.held}".split()
    moved = [
        z.index_select(word.index("B"), order) if "B" in word else z
        for word, z in zip(words, tensors, strict=True)
    ]
    assert case.call(*moved, y[order]).item() == pytest.approx(case.call(*tensors, y).item())


def test_autocast_does_not_change_the_value(case: Case, y: Tensor, draw: Draw) -> None:
    tensors = [z.float() for z in case.tensors(len(y), draw)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = case.call(*tensors, y)
    assert torch.equal(found, case.call(*tensors, y))


@pytest.mark.parametrize("name", CONTRASTS)
def test_the_value_is_invariant_to_class_labels(name: str, y: Tensor, draw: Draw) -> None:
    z, names = draw(len(y), WIDTH), torch.tensor([9, -2, 40, 0, 7, 3])
    assert torch.equal(CONTRASTS[name].call(z, names[y]), CONTRASTS[name].call(z, y))


@pytest.mark.parametrize("name", ROTATABLE)
def test_the_value_is_invariant_to_rotation(name: str, y: Tensor, draw: Draw) -> None:
    call, tensors = ROTATABLE[name].call, ROTATABLE[name].tensors(len(y), draw)
    rotation = torch.linalg.qr(draw(WIDTH, WIDTH)).Q
    rotated = [z @ rotation for z in tensors]
    assert call(*rotated, y).item() == pytest.approx(call(*tensors, y).item())


def test_the_value_is_invariant_to_vector_lengths(cosine: Case, y: Tensor, draw: Draw) -> None:
    tensors = cosine.tensors(len(y), draw)
    scaled = [draw(*z.shape[:-1], 1).exp() * z for z in tensors]
    assert cosine.call(*scaled, y).item() == pytest.approx(cosine.call(*tensors, y).item())
