"""Tests of the check of search space files: every error names its place in the file."""

from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.spaces.load import check_file, load_space


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
            "space.chunk_tokens: sets the use of memory alone",
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
