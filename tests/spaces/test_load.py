"""Tests of loading search spaces: lookup, YAML, method and encoder sections."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sclsearch.errors import SclsearchError
from sclsearch.methods import method_class
from sclsearch.methods.scl import CE, SCL
from sclsearch.spaces.load import check_file, find_space, load_space
from sclsearch.spaces.space import Choice, Range


def test_loaded_values_have_the_types_of_the_method_fields(file: Path, good: str) -> None:
    file.write_text(good)
    space = load_space(file, "supcl-seq")
    assert space.parameters == {
        "dropouts": Choice(((0.0, 0.1), (0.1, 0.1))),
        "probe_learning_rate": Range(1e-4, 1e-2, "log"),
    }
    assert space.published == (
        {"dropouts": (0.0, 0.1), "probe_learning_rate": 1e-3},
        {"dropouts": (0.1, 0.1), "probe_learning_rate": 1e-2},
    )
    assert space.fixed == {"batch_size": 16, "tau": 1.0}
    assert type(space.fixed["tau"]) is float
    found = space.method, space.source, space.file
    assert found == ("supcl-seq", "Sedghamiz et al. 2021", "mine.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "method: scl\nspace: {tau: {}, tau: {}}\n",
            '.*line: 2. found duplicate key "tau"',
        ),
        ("method: [scl\nsource: x", ".*line 2, column 7"),
        ("method: !!python/name:os.system x", ".*line 1, column 9"),
        ("method: \x07", ".*unacceptable character #x0007"),
        ("fixed: {tau: [1, .nan]}", ".*float values are not JSON"),
        ("fixed: &a [*a]", ".*Circular reference"),
        ("fixed: 2020-01-01", ".*date is not JSON serializable"),
        ("", "must be a mapping of keys to values, got null"),
        ("tau", "must be a mapping of keys to values, got 'tau'"),
    ],
)
def test_invalid_yaml_is_reported_with_line_and_column(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    (line,) = check_file(file)
    assert re.match(f"mine.yaml: {message}", line)
    file.unlink()
    assert check_file(file) == ["mine.yaml: cannot be read: No such file or directory."]


def test_a_space_of_another_method_is_refused(file: Path) -> None:
    file.write_text("method: scl\nsource: x\nspace: {}\n")
    assert load_space(file, SCL).size() == 1
    assert load_space(file, SCL).published == ()
    with pytest.raises(SclsearchError, match=r"mine\.yaml: method: must be 'ce', got 'scl'"):
        load_space(file, CE)
    with pytest.raises(SclsearchError, match="Unknown method 'sc1'"):
        load_space(file, "sc1")


@dataclass(frozen=True, slots=True)
class Mine(CE):
    """A custom method."""


def test_a_custom_method_is_named_by_its_class(file: Path) -> None:
    file.write_text("method: Mine\nsource: x\npublished: []\nfixed: {pooling: mean}\nspace: {}\n")
    assert load_space(file, Mine).fixed == {"pooling": "mean"}
    assert check_file(file)[0].startswith("mine.yaml: method: Unknown method 'Mine'.")


def test_a_task_without_a_file_uses_the_file_of_the_paper(tmp_path: Path) -> None:
    (tmp_path / "scl").mkdir()
    (tmp_path / "scl" / "paper.yaml").touch()
    (tmp_path / "scl" / "cola.yaml").touch()
    assert find_space("scl", "cola", tmp_path).name == "cola.yaml"
    assert find_space("scl", "rte", tmp_path).name == "paper.yaml"
    with pytest.raises(SclsearchError, match=r"rte\.yaml nor paper\.yaml"):
        find_space("ce", "rte", tmp_path)


def test_a_task_variant_falls_back_to_the_file_of_its_base_task(tmp_path: Path) -> None:
    (tmp_path / "scl").mkdir()
    for added, expected in (("paper", "paper"), ("mnli", "mnli"), ("mnli-mm", "mnli-mm")):
        (tmp_path / "scl" / f"{added}.yaml").touch()
        assert find_space("scl", "mnli-mm", tmp_path).stem == expected
    assert find_space("scl", "mnli", tmp_path).stem == "mnli"


ENTRIES: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {
    "tau": st.lists(st.floats(0.001, 10), min_size=1, max_size=4, unique=True).map(
        lambda values: {"type": "choice", "values": values}
    ),
    "lam": st.tuples(st.floats(0, 0.4), st.floats(0.5, 1)).map(
        lambda ends: {"type": "float", "low": ends[0], "high": ends[1]}
    ),
    "learning_rate": st.tuples(st.floats(1e-9, 1e-4), st.floats(2e-4, 0.9)).map(
        lambda ends: {"type": "log", "low": ends[0], "high": ends[1]}
    ),
    "epochs": st.lists(st.integers(1, 5), min_size=1, unique=True).map(
        lambda values: {"type": "choice", "values": values}
    ),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.fixed_dictionaries({}, optional=dict(ENTRIES)))
def test_a_space_survives_a_yaml_round_trip(file: Path, entries: dict[str, Any]) -> None:
    content = {"method": "scl", "source": "x", "published": [], "space": entries}
    YAML(typ="safe", pure=True).dump(content, file)
    space = load_space(file, method_class("scl"))
    assert {name: parameter.spec() for name, parameter in space.parameters.items()} == entries
    assert json.loads(json.dumps(space.spec())) == space.spec()
