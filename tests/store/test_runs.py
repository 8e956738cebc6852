"""Tests of stored seed runs: exact reading, replacement, lookup and damaged files."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError
from sclsearch.store.runs import Failure, RowResults, RunStore, SeedRun
from sclsearch.store.storage import DamagedError, LocalPath

IDENTITY = {"fields": {"tau": 0.1 + 0.2, "learning_rate": 1e-5}, "seeds": {"order": 2**62}}
FINISHED = SeedRun(
    key=digest(IDENTITY),
    identity=IDENTITY,
    origin={"study": "first", "configuration": 0, "replicate": 3},
    evaluations=(
        {"epoch": 0.5, "update": 7, "loss": {"ce": 1 / 3}, "validation": {"pearson": 0.1}},
        {"epoch": 1.0, "update": 14, "loss": {"ce": 5e-324}, "validation": {"pearson": 2 / 7}},
    ),
    kept=1,
    test={"pearson": -1.7976931348623157e308},
    predictions={"validation": [0.1, 1e-17], "test": [1.0]},
    started=1_700_000_000.123,
    seconds=1.5,
    environment={"packages": {"torch": "2"}, "gpu": None},
)
FAILED = SeedRun(
    key=digest({}),
    identity={},
    origin={},
    failure=Failure("non-finite", "fine-tuning: ce must be finite"),
)


ROWS = RowResults(
    labels={"validation": np.array([0.1, 1 / 3]), "test": np.array([5e-324])},
    probabilities={
        "validation": np.empty((2, 0), np.float32),
        "test": np.empty((1, 0), np.float32),
    },
)


@pytest.fixture
def runs(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path)


@pytest.mark.parametrize("run", [FINISHED, FAILED], ids=["finished", "failed"])
def test_a_seed_run_comes_back_exactly(runs: RunStore, run: SeedRun) -> None:
    assert runs.get(run.key) is None
    assert runs.put(run)
    assert runs.get(run.key) == run


def test_labels_and_probabilities_come_back_exactly(runs: RunStore) -> None:
    assert runs.put(FINISHED, ROWS)
    assert runs.put(FAILED)
    assert sorted(runs.keys()) == sorted([FINISHED.key, FAILED.key])
    found, nothing = runs.rows([FINISHED, FAILED])
    assert nothing is None
    assert found is not None
    for ours, theirs in ((found.labels, ROWS.labels), (found.probabilities, ROWS.probabilities)):
        assert ours.keys() == theirs.keys()
        for split, values in theirs.items():
            assert ours[split].dtype == values.dtype
            np.testing.assert_array_equal(ours[split], values)


def test_a_changed_byte_never_changes_labels_or_probabilities() -> None:
    content = ROWS.encoded()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 0xFF
        try:
            found = RowResults.decoded(bytes(changed))
        except ValueError:
            continue
        assert found.labels["validation"].tolist() == ROWS.labels["validation"].tolist()
        assert found.labels["test"].tolist() == ROWS.labels["test"].tolist()


def test_a_stored_seed_run_is_not_replaced(runs: RunStore) -> None:
    runs.put(FINISHED)
    assert not runs.put(replace(FINISHED, kept=0))
    assert runs.get(FINISHED.key) == FINISHED


def test_a_test_score_is_added_and_never_lost(runs: RunStore) -> None:
    untested = replace(FINISHED, test={}, predictions={"validation": [0.1, 1e-17]})
    rows = RowResults(
        {"validation": ROWS.labels["validation"]},
        {"validation": ROWS.probabilities["validation"]},
    )
    assert runs.put(untested, rows)
    assert not runs.put(replace(FINISHED, evaluations=FINISHED.evaluations[1:], kept=0), ROWS)
    assert runs.put(FINISHED, ROWS)
    assert not runs.put(untested, rows)
    assert runs.get(FINISHED.key) == FINISHED
    (found,) = runs.rows([FINISHED])
    assert found is not None
    assert found.labels.keys() == ROWS.labels.keys()


def test_a_result_replaces_a_failure_but_a_failure_replaces_nothing(runs: RunStore) -> None:
    result = replace(FINISHED, key=FAILED.key, identity=FAILED.identity)
    assert runs.put(FAILED)
    assert not runs.put(replace(FAILED, failure=Failure("hang", "1 h")))
    assert runs.put(result)
    assert not runs.put(FAILED)
    assert runs.get(FAILED.key) == result
    assert [name[:64] for name in (runs.folder / "retried").names()] == [FAILED.key]


def test_a_result_stored_while_a_failure_is_forgotten_stays(
    runs: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = replace(FINISHED, key=FAILED.key, identity=FAILED.identity)
    runs.put(FAILED)

    def put_meanwhile(place: LocalPath, *arguments: str) -> LocalPath:
        monkeypatch.undo()
        assert runs.put(result)
        return place.move_into(*arguments)

    monkeypatch.setattr(LocalPath, "move_into", put_meanwhile)
    assert not runs.forget_failure(FAILED.key)
    assert runs.get(FAILED.key) == result


def test_only_a_failure_is_forgotten(runs: RunStore) -> None:
    runs.put(FINISHED)
    runs.put(FAILED)
    assert not runs.forget_failure(FINISHED.key)
    assert runs.forget_failure(FAILED.key)
    assert not runs.forget_failure(FAILED.key)
    assert (runs.get(FINISHED.key), runs.get(FAILED.key)) == (FINISHED, None)


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("abcd", r"'abcd': .* those of 2 in .*runs\."),
        ("abcd2", r"'abcd2': .* those of 0 in .*runs\."),
        ("abc", r"'abc': must be 4 or more characters that begin one key"),
        ("../*", r"'\.\./\*': must be"),
        ("a" * 65, r"'a+': must be"),
    ],
)
def test_a_key_is_found_by_its_unique_prefix(runs: RunStore, prefix: str, message: str) -> None:
    for ending in ("0", "1"):
        runs.put(replace(FINISHED, key="abcd" + ending * 60))
    assert runs.find("abcd0") == "abcd" + "0" * 60
    with pytest.raises(SclsearchError, match=message):
        runs.find(prefix)


def changed(runs: RunStore, change: Callable[[dict[str, Any]], object]) -> Path:
    """Store a seed run, change its file as another program would, and return the file."""
    runs.put(FINISHED)
    file = Path(str(runs.folder), f"{FINISHED.key}.json")
    stored = json.loads(file.read_text())
    change(stored)
    file.write_text(json.dumps(stored))
    return file


def test_a_changed_file_is_refused_and_other_files_are_read(runs: RunStore) -> None:
    runs.put(FAILED)
    changed(runs, lambda run: run["test"].update(pearson=0.5))
    with pytest.raises(SclsearchError, match="its checksum differs"):
        runs.get(FINISHED.key)
    found, damaged = runs.get_valid([FINISHED.key, FAILED.key])
    assert found == [None, FAILED]
    assert "its checksum differs" in damaged[FINISHED.key]
    assert list(runs.all()) == [FAILED]


def test_a_file_without_a_checksum_is_damaged(runs: RunStore) -> None:
    changed(runs, lambda run: run.pop("sha256"))
    with pytest.raises(DamagedError, match="its checksum"):
        runs.get(FINISHED.key)


def test_a_damaged_file_is_set_aside_and_its_seed_run_can_be_stored(runs: RunStore) -> None:
    changed(runs, lambda run: run.update(kept=0))
    runs.set_aside(FINISHED.key)
    assert len((runs.folder / "damaged").names()) == 1
    assert runs.get(FINISHED.key) is None
    assert runs.put(FINISHED)
