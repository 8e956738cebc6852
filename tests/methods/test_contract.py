"""Contract of every method: documented and bounded fields, finite terms, learning, scores."""

import inspect
import pickle
import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, replace
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
import torch.nn.functional as F
from annotated_types import BaseMetadata, Interval, MinLen
from torch import Tensor

from sclsearch import objectives
from sclsearch.encoders.encoder import Encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class, method_summaries
from sclsearch.methods.base import Batch, Method, Model, Stage, Training
from sclsearch.methods.fields import (
    describe_fields,
    description,
    field_errors,
    resolved,
)
from sclsearch.methods.lacon import LEAM, LSAN, LaCon, LaConFusion
from sclsearch.methods.scl import CECL, SCL
from sclsearch.methods.supcl_seq import SimCSE, SupCLSeq
from sclsearch.protocols import PROTOCOLS

KINDS = pytest.mark.parametrize(
    "kind", [*map(method_class, METHODS), Training], ids=lambda k: k.__name__
)
POOLED = [
    (name, field.name)
    for name in METHODS
    for field in fields(method_class(name))  # type: ignore[arg-type]
    if "cls_pooled" in get_args(get_type_hints(method_class(name)).get(field.name))
]


def bounded(hint: Any) -> bool:
    """Return whether a type has bounds, or is a list of values."""
    if get_origin(hint) is not Annotated:
        return hint is bool or get_origin(hint) is Literal
    inner, *bounds = get_args(hint)
    if get_origin(inner) is tuple:
        return bounded(get_args(inner)[0]) and any(isinstance(bound, MinLen) for bound in bounds)
    return any(isinstance(bound, BaseMetadata | Interval) for bound in bounds)


def test_every_summary_is_the_first_sentence_of_a_docstring(kind: Any) -> None:
    summaries = method_summaries()
    assert list(summaries) == list(METHODS)
    (summary,) = (summaries[name] for name in METHODS if method_class(name) is kind)
    assert (kind.__doc__ or "").startswith(f"{summary}\n")
    assert summary.endswith(".")
    assert len(summary) > 20


def test_every_field_has_a_description(kind: Any) -> None:
    assert [field.name for field in describe_fields(kind) if not field.meaning] == []


@KINDS
def test_every_documented_attribute_is_a_field(kind: Any) -> None:
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    documented = re.findall(r"^    (\w+): \S", section, flags=re.MULTILINE)
    assert set(documented) <= {field.name for field in fields(kind)}


@pytest.mark.parametrize("name", METHODS)
def test_the_description_names_the_paper_and_existing_objectives(name: str) -> None:
    text = description(method_class(name))
    assert re.search("https://", text)
    if not re.search("loss is that of `", text):
        assert {*re.findall(r"`(\w+)`", text)} & {*objectives.__all__}


@KINDS
def test_every_field_has_bounds_or_a_list_of_values(kind: Any) -> None:
    hints = get_type_hints(kind, include_extras=True)
    assert [field.name for field in fields(kind) if not bounded(hints[field.name])] == []


def test_no_field_has_the_name_of_a_training_field(kind: Any) -> None:
    assert not {field.name for field in fields(kind)} & {field.name for field in fields(Training)}


def test_the_defaults_are_valid_and_the_protocols_exist(kind: Any) -> None:
    assert field_errors(kind, resolved(kind(), Training(**kind.training))) == []
    assert {kind.protocol, kind.few_shot} <= set(PROTOCOLS)


def test_methods_are_picklable_and_frozen(method: Method) -> None:
    copy = pickle.loads(pickle.dumps(method))
    assert copy == method
    assert hash(copy) == hash(method)
    with pytest.raises(FrozenInstanceError):
        setattr(method, fields(method)[0].name, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "field"), POOLED)
def test_a_missing_pretrained_pooler_is_an_error_that_names_the_field(
    roberta: Encoder, name: str, field: str
) -> None:
    others = {other: "mean" for kind, other in POOLED if kind == name and other != field}
    method = method_class(name)(**{**others, field: "cls_pooled"})
    with pytest.raises(SclsearchError, match=f"^{field}: 'cls_pooled' .* pooler"):
        method.check(roberta)


def test_methods_with_masks_reject_encoders_without_mask_token(bert: Encoder) -> None:
    bert.mask_token = None
    for name in ("cmlm", "tapt"):
        with pytest.raises(SclsearchError, match=r"^p_m: .* mask token"):
            method_class(name)().check(bert)
    method_class("cssl")().check(bert)


def test_a_loss_depends_on_labels_exactly_in_labeled_stages(
    bert: Encoder, batch: Batch, method: Method
) -> None:
    for stage in method.stages(Training()):
        torch.manual_seed(0)
        model = Model(bert, stage.new_modules(bert, 2))
        losses = []
        for y in ([0, 1, 0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 1, 1, 0, 0]):
            torch.manual_seed(1)
            seen = replace(batch, y=torch.tensor(y), dropout_rates=stage.dropout_rates_at(0))
            losses.append(stage.loss(stage.terms(model, seen)).item())
        assert (losses[0] != losses[1]) == stage.labeled


def losses(model: Model, stage: Stage, batch: Batch, steps: int) -> Iterator[Tensor]:
    """Yield the loss before each step of a plain training loop."""
    model.train()
    model.encoder.requires_grad_(stage.frozen_pooling is None)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        loss = stage.loss(
            stage.terms(model, replace(batch, dropout_rates=stage.dropout_rates_at(step)))
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield loss.detach()


def columns(batch: Batch, rows: slice, length: int) -> Batch:
    """Return some rows, truncated or padded to a length."""
    width = batch.ids.shape[1]
    cut: dict[str, Any] = {
        name: F.pad(getattr(batch, name)[rows], (0, max(length - width, 0)))[:, :length]
        for name in ("ids", "mask", "types", "content")
    }
    return replace(batch, y=batch.y[rows], **cut)


def test_ten_steps_on_separable_texts_lower_the_loss_of_each_stage(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    torch.manual_seed(0)
    for stage in method.stages(Training(dropout=0.0)):
        model = Model(bert, stage.new_modules(bert, 2))
        first, *_, last = losses(model, stage, batch, 10)
        assert first - last > 0.05 * first.abs()


def test_scores_have_a_column_per_class_or_one_value_in_regression(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    for classes in (0, 2, 5) if method.regression else (2, 5):
        model = Model(bert, method.stages(Training())[-1].new_modules(bert, classes)).eval()
        scores = method.scores(model, batch)
        assert scores.shape == ((8, classes) if classes else (8,))
        assert torch.equal(method.scores(model, replace(batch, dropout_rates=(0.5,))), scores)


def test_scores_do_not_depend_on_padding_and_other_rows(
    method: Method, bert: Encoder, batch: Batch
) -> None:
    torch.manual_seed(0)
    model = Model(bert, method.stages(Training())[-1].new_modules(bert, 3)).eval()
    together = method.scores(model, columns(batch, slice(None), 11))
    for row, length in enumerate(batch.mask.sum(1).tolist()):
        alone = method.scores(model, columns(batch, slice(row, row + 1), length))
        torch.testing.assert_close(alone[0], together[row])


def test_learning_rates_and_weight_decay_name_existing_modules(
    method: Method, bert: Encoder
) -> None:
    for stage in method.stages(Training()):
        assert {*stage.lr_scales, *stage.no_weight_decay} <= set(stage.new_modules(bert, 2))
        assert all(factor > 0 for factor in stage.lr_scales.values())


TRAINING = Training(learning_rate=0.01, epochs=3, dropout=0.2)
JOINT: dict[str, object] = {"training": TRAINING, "frozen_pooling": None}
LABELS: dict[str, object] = {
    **JOINT,
    "lr_scales": {"labels": 10.0},
    "no_weight_decay": ("labels",),
}
CONTRAST: dict[str, object] = {**JOINT, "name": "contrast"}
PROBE: dict[str, object] = {
    "name": "probe",
    "training": replace(TRAINING, learning_rate=3e-3, epochs=7),
    "frozen_pooling": "mean",
    "labeled": True,
}
VIEWS = (0.0, 0.3)
OWN: dict[str, Any] = {
    "dropouts": VIEWS,
    "pooling": "mean",
    "probe_learning_rate": 3e-3,
    "probe_epochs": 7,
}
STAGES: tuple[tuple[Method, list[tuple[tuple[float, ...], dict[str, object]]]], ...] = (
    (SCL(lam=0.99), [((0.2,), CONTRAST)]),
    (CECL(), [((0.2, 0.2), JOINT)]),
    (LaCon(label_lr_mult=10.0), [((0.2,), LABELS)]),
    (LaConFusion(label_lr_mult=10.0), [((0.2,), LABELS)]),
    (LEAM(label_lr_mult=10.0), [((0.2,), LABELS)]),
    (LSAN(label_lr_mult=10.0), [((0.2,), LABELS)]),
    (SupCLSeq(**OWN), [(VIEWS, {**CONTRAST, "labeled": True}), ((0.2,), PROBE)]),
    (SimCSE(**OWN), [(VIEWS, {**CONTRAST, "labeled": False}), ((0.2,), PROBE)]),
)
"""Dropout rates and settings of each stage of a method that is trained by `TRAINING`."""


@pytest.mark.parametrize(("method", "expected"), STAGES, ids=lambda one: type(one).__name__)
def test_the_fields_of_a_method_determine_the_settings_of_its_stages(
    method: Method, expected: list[tuple[tuple[float, ...], dict[str, object]]]
) -> None:
    for stage, (rates, settings) in zip(method.stages(TRAINING), expected, strict=True):
        assert stage.dropout_rates_at(5) == rates
        assert {name: getattr(stage, name) for name in settings} == settings
