"""A whole search with real Ray, what it leaves behind, and what the same search finds there."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.search.rerun import rerun
from sclsearch.search.run import SearchResult
from sclsearch.tasks.custom import CustomTask
from tests.search.beside import beside
from tests.workspace import Workspace

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture(scope="module")
def first(place: Workspace) -> tuple[SearchResult, float]:
    """Returns how a search of two configurations ended, and its seconds."""
    begun, handlers = time.monotonic(), [signal.getsignal(each) for each in SIGNALS]
    done = place.run(configs=2)
    assert [signal.getsignal(each) for each in SIGNALS] == handlers
    return done, time.monotonic() - begun


@pytest.fixture
def killer(processes: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Kills one worker in the middle of a seed run; returns whom."""
    for name, value in processes.environment.items():
        monkeypatch.setenv(name, value)
    killed: list[int] = []

    def kill(over: threading.Event) -> None:
        while not killed and not over.wait(0.05):
            killed.extend(processes.named("ray::ImplicitFunc.train")[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    with beside(kill):
        yield killed


def weights(place: Workspace, name: str) -> set[str]:
    folder = place.storage / "studies" / name / "weights"
    return {path.stem for path in folder.glob("*.safetensors")}


def test_a_search_ends_complete_with_every_seed_run_in_the_store(
    place: Workspace, first: tuple[SearchResult, float]
) -> None:
    done, _ = first
    assert (done.ending, done.wanted, done.done, done.trained, done.failed) == (
        "complete",
        4,
        4,
        4,
        0,
    )
    assert done.tracking is None
    for number, runs in place.seed_runs(done.name).items():
        assert len(runs) == 2
        for replicate, one in enumerate(runs):
            assert one is not None
            assert len(one.evaluations) == 8
            assert {"validation", "test"} == {*one.predictions}
            assert (one.origin["configuration"], one.origin["replicate"]) == (number, replicate)
            assert (one.environment["threads"], one.environment["gpus"]) == (1, 0.0)


def test_mlflow_shows_the_study_its_configurations_and_their_seed_runs_once(
    place: Workspace, first: tuple[SearchResult, float]
) -> None:
    from mlflow import MlflowClient

    done, _ = first
    client = MlflowClient(f"sqlite:///{place.storage / 'mlflow.db'}")
    shown = client.search_runs([e.experiment_id for e in client.search_experiments()])
    levels = {run.info.run_id: run.data.tags["level"] for run in shown}
    assert Counter(levels.values()) == {"study": 1, "configuration": 2, "seed run": 4}
    parents = {
        (levels[run.info.run_id], levels.get(run.data.tags.get("mlflow.parentRunId", "")))
        for run in shown
    }
    assert parents == {("study", None), ("configuration", "study"), ("seed run", "configuration")}
    keys = [run.data.tags["key"] for run in shown if levels[run.info.run_id] == "seed run"]
    assert sorted(keys) == sorted(place.runs())
    assert {run.info.status for run in shown} == {"FINISHED"}
    scores = report(place.storage, done.name).configurations
    study = next(run for run in shown if levels[run.info.run_id] == "study")
    assert study.data.metrics["score"] == max(line.score or 0 for line in scores)
    tests = [line.test_mean for line in scores]
    assert study.data.metrics["test"] == pytest.approx(tests[0])
    of_each = [run for run in shown if levels[run.info.run_id] == "configuration"]
    assert sorted(run.data.metrics["test"] for run in of_each) == pytest.approx(
        sorted(test for test in tests if test is not None)
    )


def test_the_weights_on_disk_are_those_that_the_report_names(
    place: Workspace, first: tuple[SearchResult, float]
) -> None:
    from safetensors import safe_open

    done, _ = first
    named = report(place.storage, done.name).weights
    assert weights(place, done.name) == {*named}
    assert len(named) == 1  # of a mean the best seed
    for key, path in named.items():
        with safe_open(path, framework="pt") as file:
            assert file.metadata()["key"] == key
            assert any(name.startswith("encoder.") for name in file.keys())  # noqa: SIM118


def test_the_same_search_again_reads_the_store_and_trains_nothing(
    place: Workspace, first: tuple[SearchResult, float]
) -> None:
    _, seconds = first
    before = place.runs()
    begun = time.monotonic()
    again = place.run(configs=2)
    assert (again.ending, again.trained, again.done) == ("complete", 0, 4)
    assert time.monotonic() - begun < seconds / 2
    assert place.runs() == before


def test_a_search_that_tests_only_its_winner_finds_the_same(
    place: Workspace, first: tuple[SearchResult, float], tmp_path: Path
) -> None:
    done, _ = first
    other = place.elsewhere(tmp_path)
    there = other.run(configs=2, test_scores="winner", tracking="none")
    assert (there.ending, there.trained, there.done) == ("complete", 4, 4)
    expected, found = report(place.storage, done.name), report(other.storage, there.name)
    assert expected.winner is not None
    assert found.winner is not None
    assert found.winner.number == expected.winner.number
    assert [one.test for one in found.winner.seeds] == [one.test for one in expected.winner.seeds]
    assert {*found.weights} == {*expected.weights} == weights(other, there.name)
    assert sorted(line.untested for line in found.configurations) == [0, 2]
    again = other.run(configs=2, test_scores="all", tracking="none")
    assert (again.ending, again.trained) == ("complete", 0)
    assert [line.seeds for line in report(other.storage, there.name).configurations] == [
        tuple(replace(seed, seconds=ANY) for seed in line.seeds) for line in expected.configurations
    ]


def test_a_seed_run_trained_again_is_bit_identical(
    place: Workspace, first: tuple[SearchResult, float], tmp_path: Path
) -> None:
    for key in [*place.runs()][:2]:
        again = rerun(place.storage, key[:10], weights=tmp_path / "again.safetensors")
        assert (again.key, again.same, again.now) == (key, True, None)
        assert (tmp_path / "again.safetensors").exists()


def test_weights_that_are_written_again_are_those_that_were_kept(
    place: Workspace, first: tuple[SearchResult, float], tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    done, _ = first
    for key, path in report(place.storage, done.name).weights.items():
        rerun(place.storage, key, weights=tmp_path / "again.safetensors")
        kept, again = load_file(path), load_file(tmp_path / "again.safetensors")
        assert kept.keys() == again.keys()
        assert all(bool((kept[name] == again[name]).all()) for name in kept)


def test_a_seed_run_of_data_that_changed_is_not_compared(
    place: Workspace, first: tuple[SearchResult, float]
) -> None:
    assert isinstance(place.spec.task, CustomTask)
    path = place.spec.task.path
    (key, *_) = place.runs()
    text = path.read_text(encoding="utf-8")
    try:
        path.write_text(text.replace("film", "movie", 1), encoding="utf-8")
        with pytest.raises(SclsearchError, match=rf"^{key[:12]}: data changed since"):
            rerun(place.storage, key)
        path.unlink()
        with pytest.raises(SclsearchError, match=r"toy.csv"):
            rerun(place.storage, key)
    finally:
        path.write_text(text, encoding="utf-8")


def test_more_configurations_train_what_is_new_and_a_killed_worker_is_made_up_for(
    place: Workspace,
    first: tuple[SearchResult, float],
    lost: Counter[tuple[int, str]],
    killer: list[int],
    tmp_path: Path,
) -> None:
    place = place.copy(tmp_path)
    before = place.runs()
    done = place.run(configs=4, tracking="none")
    assert len(killer) == 1
    assert [cause for _, cause in lost.elements()] == ["worker-lost"]
    assert (done.ending, done.wanted, done.done, done.failed) == ("complete", 8, 8, 0)
    assert done.trained == 4
    after = place.runs()
    assert {key: after[key] for key in before} == before
    new = {key: text for key, text in after.items() if key not in before}
    assert len(new) == 4
    assert weights(place, done.name) == {*report(place.storage, done.name).weights}
    for key in new:
        assert rerun(place.storage, key).differing == ()
