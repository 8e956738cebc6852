"""Tests of hyperparameter values, and of custom methods in files."""

import json
import math
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

from sclsearch.canonical import file_digest
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, check_method_name, find_method, method_class
from sclsearch.methods.base import Training
from sclsearch.methods.fields import build, field_errors, field_validators, resolved
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


@pytest.mark.parametrize(
    ("kind", "value"), [(SupCLSeq, [0, 0.1]), (SupCLSeq, (0.0, 0.1))], ids=["list", "tuple"]
)
def test_a_list_of_numbers_becomes_a_tuple_of_floats(kind: Any, value: object) -> None:
    method, _ = build(kind, {"dropouts": value}, "mine.yaml")
    assert isinstance(method, SupCLSeq)
    assert method.dropouts == (0.0, 0.1)
    assert list(map(type, method.dropouts)) == [float, float]


@pytest.mark.parametrize("name", METHODS)
def test_field_types_list_method_fields_before_training_fields(name: str) -> None:
    kind: Any = method_class(name)
    expected = [field.name for each in (kind, Training) for field in fields(each)]
    assert list(field_validators(kind)) == expected
    assert list(resolved(kind(), Training())) == expected


@pytest.mark.parametrize("name", METHODS)
def test_values_can_be_stored_as_json(name: str) -> None:
    kind: Any = method_class(name)
    values = resolved(kind(), Training(**kind.training))
    again = build(kind, json.loads(json.dumps(values)), "mine.yaml")
    assert resolved(*again) == values
    assert again == (kind(), Training(**kind.training))


FROZEN = "@dataclass(frozen=True)\nclass Mine(Method):\n    {body}\n"


@pytest.fixture
def mine(custom_method: str, tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    return file


def test_a_method_of_a_file_has_the_name_of_its_class_and_the_digest_of_its_file(
    mine: Path,
) -> None:
    found = find_method(f"{mine}:Smoothed")
    assert (found.name, found.place) == ("Smoothed", f"{mine}:Smoothed")
    assert found.digest == file_digest(mine)
    assert find_method(found.kind) == found
    method, training = build(found.kind, {"smoothing": 0.3, "epochs": 2}, "a test")
    assert (method.smoothing, training.epochs) == (0.3, 2)  # type: ignore[attr-defined]


def test_a_built_in_class_is_found_like_its_name() -> None:
    assert find_method(SCL) == find_method("scl")
    assert find_method(SCL).digest == ""


@pytest.mark.parametrize("name", ["scl", "ce"])
def test_a_class_with_the_name_of_a_built_in_method_is_an_error(
    custom_method: str, tmp_path: Path, name: str
) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(custom_method.replace("class Smoothed", f"class {name}"), encoding="utf-8")
    with pytest.raises(SclsearchError, match=rf"^--method {file}:{name}: .* built-in method"):
        find_method(f"{file}:{name}")


def test_a_method_that_is_neither_name_nor_class_is_an_error() -> None:
    with pytest.raises(SclsearchError, match=r"^--method: .* got 5\.$"):
        find_method(5)  # type: ignore[arg-type]


def test_a_name_is_checked_without_importing_the_file() -> None:
    check_method_name("./not-there.py:Mine")
    with pytest.raises(SclsearchError, match=r"^Unknown method 'mine:Mine'"):
        check_method_name("mine:Mine")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    place = f"{tmp_path}/mine.py:Mine"
    with pytest.raises(SclsearchError, match=f"^--method {place}: there is no file "):
        find_method(place)


def test_a_missing_class_is_an_error_with_the_nearest_name(mine: Path) -> None:
    with pytest.raises(SclsearchError, match=rf"^--method {mine}:Smooth: .*'Smoothed'\? Known"):
        find_method(f"{mine}:Smooth")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("size = 1 / 0", "ZeroDivisionError: division by zero"),
        ("size = 1 +", "SyntaxError: invalid syntax"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_an_import_error_names_the_line_of_the_file(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(f"first = 0\n\n{line}\n\nrest = 1\n", encoding="utf-8")
    with pytest.raises(SclsearchError, match=rf"^--method {file}:Mine: .*{fault}.*line 3"):
        find_method(f"{file}:Mine")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("class Mine(Method):\n    pass\n", "must be a frozen dataclass and derive from"),
        ("@dataclass(frozen=True)\nclass Mine:\n    pass\n", "must be a frozen dataclass and"),
        (FROZEN.format(body="a: int"), r"TypeError: .* missing .* argument: 'a'"),
        (FROZEN.format(body="epochs: int = 3"), "epochs is a field of every method"),
        (
            FROZEN.format(body="a: Encoder | None = None"),
            "PydanticSchemaGenerationError: ",
        ),
        (FROZEN.format(body="a: 'Unknown' = 1"), "NameError: name 'Unknown' is not defined"),
    ],
)
def test_a_class_that_is_no_method_is_an_error(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "mine.py"
    imports = (
        "from dataclasses import dataclass\nfrom sclsearch.methods.base import Encoder, Method\n"
    )
    file.write_text(f"{imports}{text}", encoding="utf-8")
    with pytest.raises(SclsearchError, match=rf"^--method {file}:Mine: {fault}"):
        find_method(f"{file}:Mine")


WITH_TEXTS = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from annotated_types import Gt
from sclsearch.methods.base import Method

Positive = Annotated[float, Gt({bound})]

@dataclass(frozen=True)
class Mine(Method):
    margin: Positive | None = {bound}.5
"""


def test_annotations_that_are_texts_are_resolved_by_the_class_s_own_file(tmp_path: Path) -> None:
    kinds = []
    for bound in (0, 1):
        file = tmp_path / str(bound) / "mine.py"
        file.parent.mkdir()
        file.write_text(WITH_TEXTS.format(bound=bound), encoding="utf-8")
        kinds.append(find_method(f"{file}:Mine").kind)
    first, second = (field_errors(kind, {"margin": 0.7}) for kind in kinds)
    assert not first
    assert second == [("margin", "must be greater than 1, got 0.7")]


def test_a_worker_without_the_file_reads_the_fields_of_a_class(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WITH_TEXTS.format(bound=0), encoding="utf-8")
    method = find_method(f"{file}:Mine")
    cloudpickle.register_pickle_by_value(sys.modules[method.kind.__module__])
    (tmp_path / "class").write_bytes(cloudpickle.dumps(method.kind))
    code = (
        "import pickle, sys; from sclsearch.methods.fields import field_validators\n"
        "print(*field_validators(pickle.load(open(sys.argv[1], 'rb'))))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "class")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("margin learning_rate ")


def test_a_field_that_may_be_none_keeps_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WITH_TEXTS.format(bound=0), encoding="utf-8")
    kind = find_method(f"{file}:Mine").kind
    fields = resolved(*build(kind, {"margin": None}, "a test"))
    assert fields["margin"] is None
    assert resolved(*build(kind, fields, "a test")) == fields


def test_a_class_without_a_file_is_an_error() -> None:
    kind = type("Mine", (), {"__module__": "nowhere"})
    with pytest.raises(SclsearchError, match=r"^method Mine: has no source file"):
        find_method(kind)
