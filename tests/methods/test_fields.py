"""Tests of building a method and its training from values, and of the errors."""

import json
import math
from dataclasses import fields
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Training
from sclsearch.methods.fields import build, field_errors, field_types, resolved
from sclsearch.methods.lacon import LaCon
from sclsearch.methods.scl import CE, SCL
from sclsearch.methods.supcl_seq import SupCLSeq

WRONG: tuple[tuple[Any, str, object, str], ...] = (
    (SCL, "tau", 0, "greater than 0"),
    (SCL, "tau", math.nan, "finite number"),
    (SCL, "tau", "0.3", "valid number"),
    (SCL, "tau", True, "valid number"),
    (SCL, "lam", 1.01, "at most 1"),
    (SCL, "pooling", ["mean"], "'head_hidden', 'cls_raw', 'cls_pooled' or 'mean'"),
    (SupCLSeq, "dropouts", [0.1], "must have 2 or more items, got"),
    (SupCLSeq, "dropouts", [-0.1, 2.0], "must be at least 0 and must be less than 1, got"),
    (SupCLSeq, "dropouts", 0.1, "must be a list such as [0.1,0.2], got"),
    (SupCLSeq, "probe_epochs", 0, "at least 1"),
    (CE, "batch_size", 16.0, "valid integer"),
    (CE, "epochs", True, "valid integer"),
    (CE, "max_length", 3, "at least 4"),
    (CE, "max_length", 8193, "at most 8192"),
    (LaCon, "icl", 1, "valid boolean"),
    (CE, "class_weights", "Balanced", "'none' or 'balanced'"),
)


@pytest.mark.parametrize(("kind", "field", "value", "reason"), WRONG)
def test_the_error_of_a_wrong_value_names_field_reason_and_value(
    kind: Any, field: str, value: object, reason: str
) -> None:
    with pytest.raises(SclsearchError) as caught:
        build(kind, {field: value}, "mine.yaml")
    message = str(caught.value)
    assert message.startswith(f"mine.yaml: {field}: ")
    assert reason in message
    assert message.endswith(f", got {value!r}")


def test_the_error_lists_all_wrong_fields() -> None:
    values = {"tau": 0, "lam": 0.5, "lamb": 0.9, "epochs": "3", "dropuot": 0.1}
    with pytest.raises(SclsearchError) as caught:
        build(SCL, values, "mine.yaml")
    first, second, third, fourth = str(caught.value).split("\n")
    known = ", ".join(sorted(field.name for kind in (SCL, Training) for field in fields(kind)))
    assert first.startswith("mine.yaml: tau: must be greater than 0")
    assert second == f"mine.yaml: lamb: unknown key. Did you mean 'lam'? Known: {known}."
    assert third.startswith("mine.yaml: epochs: must be a valid integer")
    assert fourth == f"mine.yaml: dropuot: unknown key. Did you mean 'dropout'? Known: {known}."


def test_fields_of_another_method_are_unknown() -> None:
    assert [field for field, _ in field_errors(CE, {"tau": 0.3, "lam": 0.9, "epochs": 3})] == [
        "tau",
        "lam",
    ]


@pytest.mark.parametrize(
    ("kind", "value"), [(SupCLSeq, [0, 0.1]), (SupCLSeq, (0.0, 0.1))], ids=["list", "tuple"]
)
def test_a_list_of_numbers_becomes_a_tuple_of_floats(kind: Any, value: object) -> None:
    method, _ = build(kind, {"dropouts": value}, "mine.yaml")
    assert isinstance(method, SupCLSeq)
    assert method.dropouts == (0.0, 0.1)
    assert list(map(type, method.dropouts)) == [float, float]


def test_integers_become_floats() -> None:
    method, training = build(SCL, {"tau": 1, "weight_decay": 0}, "mine.yaml")
    assert isinstance(method, SCL)
    assert (type(method.tau), type(training.weight_decay)) == (float, float)


def test_missing_fields_have_their_defaults() -> None:
    assert build(SCL, {"lam": 0.5, "epochs": 3}, "mine.yaml") == (SCL(lam=0.5), Training(epochs=3))


@pytest.mark.parametrize("name", METHODS)
def test_field_types_list_method_fields_before_training_fields(name: str) -> None:
    kind: Any = method_class(name)
    expected = [field.name for each in (kind, Training) for field in fields(each)]
    assert list(field_types(kind)) == expected
    assert list(resolved(kind(), Training())) == expected


@pytest.mark.parametrize("name", METHODS)
def test_values_can_be_stored_as_json(name: str) -> None:
    kind: Any = method_class(name)
    values = resolved(kind(), Training(**kind.training))
    again = build(kind, json.loads(json.dumps(values)), "mine.yaml")
    assert resolved(*again) == values
    assert again == (kind(), Training(**kind.training))
