"""Tests of search space files: lookup, YAML, types, and errors with their place."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.methods.scl import CE, SCL
from sclsearch.spaces.load import check_file, find_space, load_space
from sclsearch.spaces.space import Choice, Range

GOOD = """
method: supcl-seq
source: Sedghamiz et al. 2021
published:
  - {dropouts: [0, 0.1], probe_learning_rate: 1e-3, batch_size: 16}
  - {dropouts: [0.1, 0.1], probe_learning_rate: 1e-2}
fixed: {batch_size: 16, tau: 1}
space:
  dropouts: {type: choice, values: [[0, 0.1], [0.1, 0.1]]}
  probe_learning_rate: {type: log, low: 1e-4, high: 1e-2}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a valid file that uses every section."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    return path


def test_loaded_values_have_the_types_of_the_method_fields(file: Path) -> None:
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


def test_invalid_yaml_is_reported_with_line_and_column(file: Path) -> None:
    for text, message in (
        ("method: scl\nspace: {tau: {}, tau: {}}\n", '.*line: 2. found duplicate key "tau"'),
        ("method: !!python/name:os.system x", ".*line 1, column 9"),
        ("fixed: {tau: [1, .nan]}", ".*float values are not JSON"),
        ("fixed: 2020-01-01", ".*date is not JSON serializable"),
        ("tau", "must be a mapping of keys to values, got 'tau'"),
    ):
        file.write_text(text)
        (line,) = check_file(file)
        assert re.match(f"mine.yaml: {message}", line)


@dataclass(frozen=True, slots=True)
class Mine(CE):
    """A custom method."""


def test_a_space_is_of_one_method_and_a_custom_one_is_named_by_its_class(file: Path) -> None:
    file.write_text("method: scl\nsource: x\nspace: {}\n")
    assert load_space(file, SCL).size() == 1
    with pytest.raises(SclsearchError, match=r"mine\.yaml: method: must be 'ce', got 'scl'"):
        load_space(file, CE)
    file.write_text("method: Mine\nsource: x\nfixed: {pooling: mean}\nspace: {}\n")
    assert load_space(file, Mine).fixed == {"pooling": "mean"}
    assert check_file(file)[0].startswith("mine.yaml: method: Unknown method 'Mine'.")


def test_a_task_without_a_file_uses_that_of_a_similar_task_or_of_the_paper(tmp_path: Path) -> None:
    (tmp_path / "scl").mkdir()
    for added in ("paper", "mnli", "mnli-mm"):
        (tmp_path / "scl" / f"{added}.yaml").touch()
        assert find_space("scl", "mnli-mm", tmp_path).stem == added
    assert find_space("scl", "mnli", tmp_path).stem == "mnli"
    assert find_space("scl", "rte", tmp_path).stem == "paper"
    with pytest.raises(SclsearchError, match=r"rte\.yaml nor paper\.yaml"):
        find_space("ce", "rte", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("source: S", "sorce: S", "sorce: unknown key. Did you mean 'source'? Known: fixed, meth"),
        ("method: supcl-seq", "method: supcl-sec", "method: Unknown method 'supcl-sec'. Did you"),
        ("space:\n  d", "space:\n  1: {}\n  d", "space: keys must be text, got 1"),
        ("type: choice", "type: choise", "space.dropouts: unknown type 'choise'. Did you mean"),
        ("[[0, 0.1], [0", "[[0, 0.1], [0.0, 0.1], [0", "space.dropouts: values must differ, got"),
        ("[[0, 0.1], [0", "[[0, 1.5], [0, 0.1], [0", "space.dropouts: must be less than 1"),
        ("low: 1e-4", "low: 0", "space.probe_learning_rate: low of a log range must be above 0"),
        ("low: 1e-4", "low: 0.1", "space.probe_learning_rate: low must be below high, got low=0.1"),
        (
            "high: 1e-2}",
            "high: 1e-2}\n  chunk_tokens: {type: choice, values: [1, 2]}",
            "space.chunk_tokens: trades memory for time",
        ),
        ("tau: 1}", "tua: 1}", "fixed.tua: unknown key. Did you mean 'tau'? Known: "),
        ("tau: 1}", "tau: 1, dropouts: [0, 0.1]}", "fixed.dropouts: must be fixed or searched"),
        ("batch_size: 16}\n  -", "batch_size: 8}\n  -", "published[0]: batch_size must be 16 as i"),
        ("batch_size: 16}\n  -", "epochs: 8}\n  -", "published[0]: epochs is neither in `space` n"),
        (", probe_learning_rate: 1e-2}", "}", "published[1]: probe_learning_rate is missing"),
        ("rate: 1e-3", "rate: 1e-5", "published[0]: probe_learning_rate must be from 0.0001 to 0"),
    ],
)
def test_an_error_names_its_place(file: Path, old: str, new: str, message: str) -> None:
    assert check_file(file) == []
    file.write_text(GOOD.replace(old, new, 1))
    lines = check_file(file)
    assert any(line.startswith(f"mine.yaml: {message}") for line in lines), lines
