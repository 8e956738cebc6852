"""Tests of hyperparameter values, and of custom methods in files."""

import subprocess
import sys
from pathlib import Path

import pytest
from ray import cloudpickle

from sclsearch.canonical import file_digest
from sclsearch.errors import SclsearchError
from sclsearch.methods import find_method
from sclsearch.methods.fields import build, field_types, resolved, typed


@pytest.fixture
def mine(tmp_path: Path, own_methods: dict[str, str]) -> Path:
    """Return `mine.py` with the documented method."""
    (tmp_path / "mine.py").write_text(own_methods["mine.py"], encoding="utf-8")
    return tmp_path / "mine.py"


def test_a_method_of_a_file_has_the_name_of_its_class_and_the_digest_of_its_file(
    mine: Path,
) -> None:
    found = find_method(f"{mine}:Smoothed")
    assert (found.name, found.place) == ("Smoothed", f"{mine}:Smoothed")
    assert found.digest == file_digest(mine)
    assert find_method(found.kind) == found
    with pytest.raises(SclsearchError, match=r"'Smoothed'\? Known"):
        find_method(f"{mine}:Smooth")
    with pytest.raises(SclsearchError, match=r"^method Mine: has no source file"):
        find_method(type("Mine", (), {"__module__": "nowhere"}))


FROZEN = "@dataclass(frozen=True)\nclass Mine(Method):\n    {body}\n"


def test_a_file_without_the_method_is_an_error_that_names_the_line_or_the_fault(mine: Path) -> None:
    imports = "from dataclasses import dataclass\nfrom sclsearch.methods.base import Method\n"
    for text, fault in (
        ("\nsize = 1 / 0\n", "ZeroDivisionError: division by zero.*line 4"),
        ("raise SystemExit(0)", "SystemExit: 0.*line 3"),
        ("@dataclass\nclass Mine(Method):\n    pass\n", "must be a frozen dataclass and"),
        (FROZEN.format(body="epochs: int = 3"), "epochs is a field of every method"),
        (FROZEN.format(body="a: 'Unknown' = 1"), "NameError: name 'Unknown' is not defined"),
        (FROZEN.format(body="def stages(self, training): pass"), "TypeError: 'NoneType' object"),
    ):
        mine.write_text(f"{imports}{text}", encoding="utf-8")
        with pytest.raises(SclsearchError, match=rf"^--method {mine}:Mine: .*{fault}"):
            find_method(f"{mine}:Mine")


WITH_TEXTS = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from annotated_types import Gt
from sclsearch.methods.base import Method

Positive = Annotated[float, Gt(1)]

@dataclass(frozen=True)
class Mine(Method):
    margin: Positive | None = 1.5
"""


def test_annotations_that_are_texts_are_resolved_and_may_allow_none_also_without_the_file(
    mine: Path, tmp_path: Path
) -> None:
    mine.write_text(WITH_TEXTS, encoding="utf-8")
    kind = find_method(f"{mine}:Mine").kind
    with pytest.raises(SclsearchError, match=r"^--set margin: must be greater than 1, got 0\.7$"):
        typed(kind, {"margin": 0.7}, "--set ")
    assert resolved(*build(kind, {"margin": None}, "a test"))["margin"] is None
    cloudpickle.register_pickle_by_value(sys.modules[kind.__module__])
    (tmp_path / "class").write_bytes(cloudpickle.dumps(kind))
    code = (
        "import pickle, sys; from sclsearch.methods.fields import field_types\n"
        "print(*field_types(pickle.load(open(sys.argv[1], 'rb'))))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "class")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == [*field_types(kind)]
