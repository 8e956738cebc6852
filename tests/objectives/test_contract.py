"""What every objective must hold: finite, smooth, and blind to what must not matter."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from sclsearch import objectives
from sclsearch.objectives import prediction_loss, sup_con

Objective = Callable[[Tensor, Tensor], Tensor]
Draw = Callable[..., Tensor]

# Of embeddings [N, d] and classes [N]; cosines count, so lengths and directions of z do not.
CONTRASTS = {
    f"sup_con {reduction} {tau}": partial(sup_con, tau=tau, reduction=reduction)
    for reduction in ("mean_valid", "mean_all", "sum")
    for tau in (0.05, 0.3)
}
# Of scores [N, C] or [N] and labels [N].
PREDICTIONS: dict[str, Objective] = {
    "prediction_loss of classes": prediction_loss,
    "prediction_loss of scores": lambda z, y: prediction_loss(z[:, 0], y.to(z.dtype)),
}
EVERY: dict[str, Objective] = {**CONTRASTS, **PREDICTIONS}
WIDTH = 7


@pytest.fixture(params=EVERY)
def objective(request: pytest.FixtureRequest) -> Objective:
    return EVERY[request.param]


@pytest.fixture(params=CONTRASTS)
def contrast(request: pytest.FixtureRequest) -> Objective:
    return CONTRASTS[request.param]


def value_and_gradient(objective: Objective, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    z = z.detach().requires_grad_()
    value = objective(z, y)
    (gradient,) = torch.autograd.grad(value, z)
    return value.detach(), gradient


def test_every_exported_objective_is_under_the_contract() -> None:
    assert {name.partition(" ")[0] for name in EVERY} == set(objectives.__all__)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_value_and_gradient_are_finite_on_every_label_pattern(
    objective: Objective, y: Tensor, dtype: torch.dtype, draw: Draw
) -> None:
    value, gradient = value_and_gradient(objective, draw(len(y), WIDTH).to(dtype), y)
    assert value.shape == ()
    assert value.dtype == torch.promote_types(dtype, torch.float32)
    assert gradient.dtype == dtype
    assert value.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("zeros", [slice(0, 1), slice(None)], ids=["one row", "all rows"])
def test_zero_rows_leave_value_and_gradient_finite(
    objective: Objective, y: Tensor, dtype: torch.dtype, zeros: slice, draw: Draw
) -> None:
    z = draw(len(y), WIDTH).to(dtype)
    z[zeros] = 0
    value, gradient = value_and_gradient(objective, z, y)
    assert value.isfinite()
    assert gradient.isfinite().all()
    assert gradient.abs().max() < 1e3


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_half_precision_rows_cost_what_their_values_cost(
    objective: Objective, y: Tensor, size: float, draw: Draw
) -> None:
    z = (size * draw(len(y), WIDTH)).half()
    assert objective(z, y).item() == pytest.approx(objective(z.double(), y).item(), rel=1e-4)


def test_the_gradient_is_the_derivative(objective: Objective, y: Tensor, draw: Draw) -> None:
    z = draw(len(y), WIDTH).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: objective(z, y), (z,))


def test_the_order_of_the_rows_does_not_matter(objective: Objective, y: Tensor, draw: Draw) -> None:
    z, order = draw(len(y), WIDTH), torch.arange(len(y)).roll(2).flip(0)
    assert objective(z[order], y[order]).item() == pytest.approx(objective(z, y).item())


def test_autocast_does_not_change_the_value(objective: Objective, y: Tensor, draw: Draw) -> None:
    z = draw(len(y), WIDTH).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = objective(z, y)
    assert torch.equal(found, objective(z, y))


def test_many_batches_in_one_call_cost_what_each_costs(objective: Objective, draw: Draw) -> None:
    z, y = draw(3, 5, WIDTH), torch.tensor([[0, 1, 0, 1, 2], [0, 0, 0, 0, 0], [0, 1, 2, 3, 4]])
    together = torch.func.vmap(objective)(z, y)
    torch.testing.assert_close(together, torch.stack(list(map(objective, z, y))))


def test_the_names_of_the_classes_do_not_matter(contrast: Objective, y: Tensor, draw: Draw) -> None:
    z, names = draw(len(y), WIDTH), torch.tensor([9, -2, 40, 0, 7, 3])
    assert torch.equal(contrast(z, names[y]), contrast(z, y))


def test_rotating_all_embeddings_does_not_matter(
    contrast: Objective, y: Tensor, draw: Draw
) -> None:
    z, rotation = draw(len(y), WIDTH), torch.linalg.qr(draw(WIDTH, WIDTH)).Q
    assert contrast(z @ rotation, y).item() == pytest.approx(contrast(z, y).item())


def test_the_length_of_an_embedding_does_not_matter(
    contrast: Objective, y: Tensor, draw: Draw
) -> None:
    z, lengths = draw(len(y), WIDTH), draw(len(y), 1).exp()
    assert contrast(lengths * z, y).item() == pytest.approx(contrast(z, y).item())
