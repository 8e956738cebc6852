"""Tests of stored seed runs: exact reading, replacement, lookup and damaged files."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sclsearch.canonical import digest
from sclsearch.errors import SclsearchError
from sclsearch.store.runs import Failure, RowResults, RunStore, SeedRun
from sclsearch.store.storage import DamagedError, LocalPath
from tests.studies import SEED_RUN_ORIGIN

IDENTITY = {
    "metric": "pearson",
    "fields": {"tau": 0.1 + 0.2, "learning_rate": 1e-5},
    "seeds": {"order": 2**62},
}
FINISHED = SeedRun(
    key=digest(IDENTITY),
    identity=IDENTITY,
    origin=SEED_RUN_ORIGIN,
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
FAILURE = Failure("non-finite", "fine-tuning: ce must be finite")
OTHER = {"metric": "pearson"}
FAILED = SeedRun(digest(OTHER), OTHER, SEED_RUN_ORIGIN, failure=FAILURE)
RESULT = replace(FINISHED, key=FAILED.key, identity=FAILED.identity)
ROWS = RowResults(
    {"validation": np.array([0.1, 1 / 3]), "test": np.array([5e-324])},
    {"validation": np.empty((2, 0), np.float32), "test": np.empty((1, 0), np.float32)},
)


@pytest.fixture
def runs(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path)


def rows_of(runs: RunStore, run: SeedRun | None) -> RowResults:
    assert run is not None
    (found,) = runs.rows([run])
    assert found is not None
    return found


def test_seed_runs_with_labels_and_probabilities_come_back_exactly(runs: RunStore) -> None:
    assert runs.get(FINISHED.key) is None
    assert runs.put(FINISHED, ROWS)
    assert runs.put(FAILED)
    failed, finished = runs.get_all([FAILED.key, FINISHED.key])
    assert (failed, finished and replace(finished, rows="")) == (FAILED, FINISHED)
    assert sorted(runs.keys()) == sorted([FINISHED.key, FAILED.key])
    assert runs.rows([FAILED]) == [None]
    found = rows_of(runs, finished)
    for ours, theirs in ((found.labels, ROWS.labels), (found.probabilities, ROWS.probabilities)):
        assert ours.keys() == theirs.keys()
        for split, values in theirs.items():
            assert ours[split].dtype == values.dtype
            np.testing.assert_array_equal(ours[split], values)


def test_a_stored_result_is_not_replaced_but_gains_a_test_score(runs: RunStore) -> None:
    untested = replace(FINISHED, test={}, predictions={"validation": [0.1, 1e-17]})
    rows = RowResults(
        {"validation": ROWS.labels["validation"]},
        {"validation": ROWS.probabilities["validation"]},
    )
    assert runs.put(untested, rows)
    assert not runs.put(replace(FINISHED, evaluations=FINISHED.evaluations[1:], kept=0), ROWS)
    assert runs.put(FINISHED, ROWS)
    for other in (untested, replace(FINISHED, kept=0)):
        assert not runs.put(other, rows)
    tested = runs.get(FINISHED.key)
    assert tested is not None
    assert replace(tested, rows="") == FINISHED
    assert rows_of(runs, tested).labels.keys() == ROWS.labels.keys()


def test_a_seed_run_that_two_processors_trained_at_once_has_the_rows_of_its_record(
    runs: RunStore,
) -> None:
    records = []
    for number in range(2):
        probabilities = {name: found + number for name, found in ROWS.probabilities.items()}
        assert runs.put(FINISHED, RowResults(ROWS.labels, probabilities))
        records.append(runs.get(FINISHED.key))
        (runs.folder / f"{FINISHED.key}.json").remove()  # the second finds no record at its start
    for number, record in enumerate(records):
        expected = ROWS.probabilities["test"] + number
        np.testing.assert_array_equal(rows_of(runs, record).probabilities["test"], expected)


def test_a_result_replaces_a_failure_but_a_failure_replaces_nothing(runs: RunStore) -> None:
    assert runs.put(FAILED)
    assert runs.forget_failure(FAILED.key)
    assert runs.get(FAILED.key) is None
    assert runs.put(FAILED)
    assert not runs.put(replace(FAILED, failure=Failure("hang", "1 h")))
    assert runs.put(RESULT)
    assert not runs.put(FAILED)
    assert not runs.forget_failure(FAILED.key)
    assert runs.get(FAILED.key) == RESULT
    assert [name[:64] for name in (runs.folder / "retried").names()] == [FAILED.key] * 2


def test_a_result_stored_while_a_failure_is_forgotten_stays(
    runs: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.put(FAILED)

    def put_meanwhile(place: LocalPath, *arguments: str) -> LocalPath:
        monkeypatch.undo()
        assert runs.put(RESULT)
        return place.move_into(*arguments)

    monkeypatch.setattr(LocalPath, "move_into", put_meanwhile)
    assert not runs.forget_failure(FAILED.key)
    assert runs.get(FAILED.key) == RESULT


def test_a_key_is_found_by_its_unique_prefix(runs: RunStore) -> None:
    for ending in ("0", "1"):
        runs.put(replace(FINISHED, key="abcd" + ending * 60))
    assert runs.find("abcd0") == "abcd" + "0" * 60
    for prefix, fault in (("abcd", ".* of 2"), ("abcd2", ".* of 0"), ("abc", ""), ("../*", "")):
        with pytest.raises(SclsearchError, match=f"'{re.escape(prefix)}': must be {fault}"):
            runs.find(prefix)


def test_a_changed_file_is_refused_and_other_files_are_read(runs: RunStore) -> None:
    runs.put(FAILED)
    runs.put(FINISHED)
    file = Path(str(runs.folder), f"{FINISHED.key}.json")
    file.write_text(file.read_text().replace("0.1", "0.5"))
    found, damaged = runs.get_valid([FINISHED.key, FAILED.key])
    assert (found, [*damaged]) == ([None, FAILED], [FINISHED.key])
    assert list(runs.all()) == [FAILED]
    with pytest.raises(DamagedError, match="its checksum differs"):
        runs.get_all([FINISHED.key])
    runs.set_aside(FINISHED.key)
    assert len((runs.folder / "damaged").names()) == 1
    assert runs.get(FINISHED.key) is None
    assert runs.put(FINISHED)
