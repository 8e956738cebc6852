"""Tests of search space files: lookup, YAML, types, and errors with their place."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("source: S", "sorce: S", "sorce: unknown key. Did you mean 'source'? Known: "),
        ("source: S", "sorce: S", "source: is missing"),
        ("method: supcl-seq", "note: x", "method: is missing"),
        ("method: supcl-seq", "method: supcl-sec", "method: Unknown method 'supcl-sec'. Did you"),
        ("space:\n  d", "space: 3\nx:\n  d", "space: must be a mapping of keys to values, got"),
        ("published:\n  -", "published:\n  - 3\n  -", "published[0]: must be a mapping of keys"),
        (
            "type: choice, values: [[0",
            "type: choise, values: [[0",
            "space.dropouts: unknown type 'choise'. Did you mean 'choice'? Known: choice, fl",
        ),
        (
            "[[0, 0.1], [0.1, 0.1]]",
            "[]",
            "space.dropouts.values: must have 1 or more items",
        ),
        ("[[0, 0.1], [0", "[[0, 0.1], [0.0, 0.1], [0", "space.dropouts: values must differ, got"),
        ("[[0, 0.1], [0", "[[0, 1.5], [0, 0.1], [0", "space.dropouts: must be less than 1"),
        ("low: 1e-4,", "", "space.probe_learning_rate.low: is missing"),
        ("low: 1e-4", "low: 0", "space.probe_learning_rate: low of a log range must be above 0"),
        ("low: 1e-4", "low: 0.1", "space.probe_learning_rate: low must be below high, got low=0.1"),
        (
            "high: 1e-2}",
            "high: 1e-2}\n  chunk_tokens: {type: choice, values: [1, 2]}",
            "space.chunk_tokens: trades memory for time",
        ),
        ("tau: 1}", "tau: -1}", "fixed.tau: must be greater than 0, got -1"),
        ("tau: 1}", "tau: null}", "fixed.tau: must be a valid number"),
        ("tau: 1}", "tua: 1}", "fixed.tua: unknown key. Did you mean 'tau'? Known: "),
        ("tau: 1}", "tau: 1, dropouts: [0, 0.1]}", "fixed.dropouts: must be fixed or searched"),
        ("batch_size: 16}\n  -", "batch_size: 8}\n  -", "published[0]: batch_size must be 16 as i"),
        ("batch_size: 16}\n  -", "epochs: 8}\n  -", "published[0]: epochs is neither in `space` n"),
        ("batch_size: 16}\n  -", "epochs: 0}\n  -", "published[0].epochs: must be at least 1"),
        (", probe_learning_rate: 1e-2}", "}", "published[1]: probe_learning_rate is missing"),
        ("rate: 1e-3", "rate: 1e-5", "published[0]: probe_learning_rate must be from 0.0001 to 0"),
    ],
)
def test_an_error_names_its_place(file: Path, good: str, old: str, new: str, message: str) -> None:
    file.write_text(good)
    assert check_file(file) == []
    assert good.count(old) >= 1
    file.write_text(good.replace(old, new, 1))
    lines = check_file(file)
    assert any(line.startswith(f"mine.yaml: {message}") for line in lines), lines


def test_all_errors_of_form_are_reported_together(file: Path) -> None:
    file.write_text(
        "method: scl\n"
        "sauce: Gunel et al. 2021\n"
        "published: [3]\n"
        "space:\n"
        "  tau: {type: float, low: 2, high: 1}\n"
        "  lam: {type: flot, low: 0, high: 1}\n"
        "  epochs: {type: float, low: x, high: 1, stp: 1}\n"
    )
    assert [line.split(": ")[1] for line in check_file(file)] == [
        "source",
        "published[0]",
        "space.tau",
        "space.lam",
        "space.epochs.low",
        "space.epochs.stp",
        "sauce",
    ]
    with pytest.raises(SclsearchError) as error:
        load_space(file, "scl")
    assert str(error.value).splitlines() == check_file(file)


def test_all_errors_of_values_are_reported_together(file: Path) -> None:
    file.write_text(
        "method: scl\n"
        "source: Gunel et al. 2021\n"
        "published: [{tau: 0.2, lam: 2}]\n"
        "fixed: {learning_rat: 1e-5}\n"
        "space:\n"
        "  tau: {type: choice, values: [-1, 0.3]}\n"
        "  lam: {type: float, low: 0, high: 1}\n"
    )
    assert [line.split(": ")[1] for line in check_file(file)] == [
        "space.tau",
        "fixed.learning_rat",
        "published[0].lam",
        "published[0]",
    ]


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("x", "fixed, method, published, source, space"),
        ("space.tau.x", "high, low, type"),
        ("space.lam.x", "type, values"),
    ],
)
def test_an_unknown_key_is_reported_with_the_known_keys(file: Path, place: str, keys: str) -> None:
    file.write_text(
        "method: scl\nsource: Y\nx: 1\nspace:\n"
        "  tau: {type: float, low: 1, high: 2, x: 1}\n"
        "  lam: {type: choice, values: [0.1], x: 1}\n"
    )
    assert f"mine.yaml: {place}: unknown key. Known: {keys}." in check_file(file)


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ("space: {1: {type: float, low: 0, high: 1}}", "space"),
        ("fixed: {1: 2}", "fixed"),
        ("published: [{1: 2}]", "published[0]"),
    ],
)
def test_a_number_as_a_key_is_reported_with_its_place(file: Path, entry: str, place: str) -> None:
    space = "" if entry.startswith("space") else "\nspace: {}"
    file.write_text(f"method: scl\nsource: x\n{entry}{space}\n")
    assert check_file(file) == [f"mine.yaml: {place}: keys must be text, got 1"]
