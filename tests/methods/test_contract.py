"""What every method must hold: documented and bounded fields, finite terms, learning."""

import inspect
import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from annotated_types import BaseMetadata, Interval, MinLen
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Batch, Method, Model, Stage, Training
from sclsearch.methods.fields import faults_of, resolved
from sclsearch.protocols import PROTOCOLS

PUBLISHED: Mapping[str, Mapping[str, object]] = {
    "ce": {"pooling": "head_hidden"},
    "scl": {
        "tau": 0.3,
        "lam": 0.9,
        "scl_reduction": "mean_valid",
        "scl_features": "cls_raw",
        "pooling": "head_hidden",
    },
    "supcl-seq": {
        "tau": 0.05,
        "dropouts": (0.0, 0.1, 0.2),
        "pooling": "cls_pooled",
        "view_mode": "paper",
        "loss_scale": "one",
        "probe_learning_rate": 1e-3,
        "probe_epochs": 5,
        "probe_encoder_mode": "eval",
    },
}
PUBLISHED_TRAINING: Mapping[str, object] = {
    "learning_rate": 1e-5,
    "batch_size": 16,
    "epochs": 10,
    "warmup_ratio": 0.06,
    "weight_decay": 0.1,
    "dropout": 0.1,
    "max_grad_norm": 0.0,
    "max_length": 128,
    "batch_sampling": "shuffle",
    "drop_last": False,
}


@pytest.fixture(params=METHODS)
def kind(request: pytest.FixtureRequest) -> Any:
    """Returns the class of each method."""
    return method_class(request.param)


@pytest.fixture
def method(kind: Any) -> Method:
    made: Method = kind()
    return made


def documented(kind: type) -> list[str]:
    attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    return re.findall(r"^    (\w+): \S", attributes, flags=re.MULTILINE)


def bounded(hint: Any) -> bool:
    """Returns whether a type lets through only what makes sense."""
    if get_origin(hint) is not Annotated:
        return hint is bool or get_origin(hint) is Literal
    inner, *bounds = get_args(hint)
    if get_origin(inner) is tuple:
        return bounded(get_args(inner)[0]) and any(isinstance(bound, MinLen) for bound in bounds)
    return any(isinstance(bound, BaseMetadata | Interval) for bound in bounds)


def losses(model: Model, stage: Stage, batch: Batch, steps: int) -> Iterator[Tensor]:
    """Yields the loss before each step of a plain training loop."""
    model.train()
    model.encoder.requires_grad_(stage.frozen_pooling is None)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        loss = stage.loss(stage.terms(model, replace(batch, rates=stage.rates_at(step))))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        yield loss.detach()


def weights_after_three_steps(
    method: Method, encoder: Encoder, batch: Batch, seed: int
) -> list[Tensor]:
    torch.manual_seed(seed)
    stage = method.stages(Training())[0]
    model = Model(encoder, stage.parts(encoder, 2))
    list(losses(model, stage, batch, 3))
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_the_published_values_are_the_defaults(kind: Any) -> None:
    name = next(name for name in METHODS if method_class(name) is kind)
    assert resolved(kind(), Training()) == {**PUBLISHED[name], **PUBLISHED_TRAINING}


@pytest.mark.parametrize("kind", [*map(method_class, METHODS), Training], ids=lambda k: k.__name__)
def test_every_field_is_documented_in_order(kind: Any) -> None:
    assert documented(kind) == [field.name for field in fields(kind)]


@pytest.mark.parametrize("kind", [*map(method_class, METHODS), Training], ids=lambda k: k.__name__)
def test_every_field_has_bounds_or_a_list_of_values(kind: Any) -> None:
    hints = get_type_hints(kind, include_extras=True)
    assert [field.name for field in fields(kind) if not bounded(hints[field.name])] == []


@pytest.mark.parametrize("hint", [float, int, str, Annotated[float, "no bound"], tuple[float, ...]])
def test_a_bare_type_has_no_bounds(hint: Any) -> None:
    assert not bounded(hint)


def test_no_field_is_named_as_a_training_field(kind: Any) -> None:
    assert not {field.name for field in fields(kind)} & {field.name for field in fields(Training)}


def test_the_defaults_lie_within_their_own_bounds(kind: Any) -> None:
    assert faults_of(kind, resolved(kind(), Training(**kind.training))) == []


def test_the_protocols_exist(kind: Any) -> None:
    assert {kind.protocol, kind.few_shot} <= set(PROTOCOLS)


def test_methods_travel_to_workers_and_are_never_changed(method: Method) -> None:
    assert pickle.loads(pickle.dumps(method)) == method
    assert hash(method) == hash(type(method)())
    with pytest.raises(FrozenInstanceError):
        method.pooling = "mean"  # type: ignore[attr-defined]


def test_terms_are_finite_scalars_that_reach_what_the_stage_trains(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    for stage in method.stages(Training()):
        model = Model(bert, stage.parts(bert, 2)).train()
        model.encoder.requires_grad_(stage.frozen_pooling is None)
        terms = stage.terms(model, replace(batch, rates=stage.rates_at(0)))
        assert all(term.shape == () and term.isfinite() for term in terms.values())
        stage.loss(terms).backward()  # type: ignore[no-untyped-call]
        reached = [p.grad is not None and bool(p.grad.any()) for p in model.parameters()]
        assert any(reached)


def test_ten_steps_on_separable_texts_lower_the_loss_of_each_stage(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    torch.manual_seed(0)
    for stage in method.stages(Training(dropout=0.0)):
        model = Model(bert, stage.parts(bert, 2))
        first, *_, last = losses(model, stage, batch, 10)
        assert last < 0.95 * first


@pytest.mark.parametrize("classes", [0, 2, 5])
def test_scores_have_a_column_a_class_and_none_in_regression(
    method: Method, bert: Encoder, batch: Batch, classes: int
) -> None:
    model = Model(bert, method.stages(Training())[-1].parts(bert, classes)).eval()
    scores = method.scores(model, batch)
    assert scores.shape == ((8, classes) if classes else (8,))
    assert torch.equal(method.scores(model, replace(batch, rates=(0.5,))), scores)


def test_three_steps_are_a_function_of_the_seed(
    method: Method, tiny_bert: Path, batch: Batch
) -> None:
    first, again, other = (
        weights_after_three_steps(method, load_encoder(tiny_bert, "tiny"), batch, seed)
        for seed in (1, 1, 2)
    )
    assert all(map(torch.equal, first, again))
    assert not all(map(torch.equal, first, other))
