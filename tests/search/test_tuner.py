"""A whole search with real Ray, and what becomes of seed runs that go wrong in every way."""

import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.search.board import Board, SeedTask
from sclsearch.search.options import How, What
from sclsearch.search.rerun import rerun
from sclsearch.search.run import Finished, run
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.tasks.own import OwnFiles

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    # Ray leaves sockets and files of its processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Asked = Callable[..., What]
TROUBLE = """
method: scl
source: a test
published:
  - {tau: 0.3, scl_features: cls_raw, epochs: 2}
  - {tau: 1e-300, scl_features: cls_raw, epochs: 2}
  - {tau: 0.3, scl_features: cls_pooled, epochs: 2}
  - {tau: 0.5, scl_features: cls_raw, epochs: 2}
  - {tau: 0.3, scl_features: cls_raw, epochs: 100000}
fixed: {max_length: 16, learning_rate: 1e-3}
space:
  tau: {type: choice, values: [0.3, 0.5, 1e-300]}
  scl_features: {type: choice, values: [cls_raw, cls_pooled]}
  epochs: {type: choice, values: [2, 100000]}
"""
"""One configuration whose loss is not finite, one that the encoder cannot do, one without end."""


@dataclass(frozen=True)
class Place:
    """A storage folder, a task and what has been done with them."""

    storage: Path
    what: What
    data: Path

    def how(self, **changes: Any) -> How:
        usual = {"storage": self.storage, "seeds": 2, "concurrency": 2, "gpus_per_trial": 0}
        return How(**{**usual, **changes})

    def run(self, **changes: Any) -> Finished:
        return run(self.what, self.how(**changes), Console(quiet=True))

    def copy(self, folder: Path) -> "Place":
        shutil.copytree(self.storage, folder / "storage")
        return replace(self, storage=folder / "storage")

    def runs(self) -> dict[str, bytes]:
        return {path.stem: path.read_bytes() for path in (self.storage / "runs").glob("*.json")}

    def weights(self, name: str) -> set[str]:
        folder = self.storage / "studies" / name / "weights"
        return {path.stem for path in folder.glob("*.safetensors")}


@pytest.fixture(scope="module")
def place(asked: Asked, toy: OwnFiles, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("search")
    data = folder / "toy.csv"
    shutil.copyfile(toy.path, data)
    return Place(folder / "storage", asked(task=replace(toy, path=data)), data)


@pytest.fixture(scope="module")
def first(place: Place) -> tuple[Finished, float]:
    """Returns how a search of two configurations ended, and its seconds."""
    begun = time.monotonic()
    return place.run(configs=2), time.monotonic() - begun


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, str]]:
    """Returns how often a configuration's seed runs are lost, by cause, while a search runs."""
    seen: Counter[tuple[int, str]] = Counter()
    lose = Board.lose

    def watched(board: Board, task: SeedTask, cause: str, message: str) -> None:
        seen[task.place[0], cause] += 1
        lose(board, task, cause, message)

    monkeypatch.setattr(Board, "lose", watched)
    return seen


@pytest.fixture
def killer(processes: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Kills one worker in the middle of a seed run; returns whom."""
    for name, value in processes.environment.items():
        monkeypatch.setenv(name, value)
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not killed and not over.wait(0.05):
            killed.extend(processes.named("ray::ImplicitFunc.train")[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield killed
    over.set()
    thread.join()


def seed_runs(storage: Path, name: str) -> dict[int, list[SeedRun | None]]:
    """Returns the stored seed runs of each configuration."""
    found = report(storage, name)
    store = RunStore(storage)
    return {
        line.number: [store.get(seed.key) for seed in line.seeds] for line in found.configurations
    }


def test_a_search_ends_complete_with_every_seed_run_in_the_store(
    place: Place, first: tuple[Finished, float]
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
    for number, runs in seed_runs(place.storage, done.name).items():
        assert len(runs) == 2
        for replicate, one in enumerate(runs):
            assert one is not None
            assert len(one.evaluations) == 8
            assert {"validation", "test"} == {*one.predictions}
            assert (one.origin["configuration"], one.origin["replicate"]) == (number, replicate)
            assert one.environment["threads"] == 1


def test_mlflow_shows_the_study_its_configurations_and_their_seed_runs_once(
    place: Place, first: tuple[Finished, float]
) -> None:
    from mlflow import MlflowClient

    done, _ = first
    client = MlflowClient(f"sqlite:///{place.storage / 'mlflow.db'}")
    shown = client.search_runs([e.experiment_id for e in client.search_experiments()])
    levels = {run.info.run_id: run.data.tags["sclsearch.level"] for run in shown}
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
    assert study.data.metrics["best.mean"] == max(line.score or 0 for line in scores)


def test_the_weights_on_disk_are_those_that_the_report_names(
    place: Place, first: tuple[Finished, float]
) -> None:
    from safetensors import safe_open

    done, _ = first
    named = report(place.storage, done.name).weights
    assert place.weights(done.name) == {*named}
    assert len(named) == 1  # of a mean the best seed
    for key, path in named.items():
        with safe_open(path, framework="pt") as file:
            assert file.metadata()["key"] == key
            assert any(name.startswith("encoder.") for name in file.keys())  # noqa: SIM118


def test_the_same_search_again_reads_the_store_and_trains_nothing(
    place: Place, first: tuple[Finished, float]
) -> None:
    _, seconds = first
    before = place.runs()
    begun = time.monotonic()
    again = place.run(configs=2)
    assert (again.ending, again.trained, again.done) == ("complete", 0, 4)
    assert time.monotonic() - begun < seconds / 2
    assert place.runs() == before


def test_a_seed_run_trained_again_is_bit_identical(
    place: Place, first: tuple[Finished, float], tmp_path: Path
) -> None:
    for key in [*place.runs()][:2]:
        again = rerun(place.storage, key[:10], weights=tmp_path / "again.safetensors")
        assert (again.key, again.differing, again.failure) == (key, (), None)
        assert (tmp_path / "again.safetensors").exists()


def test_weights_that_are_written_again_are_those_that_were_kept(
    place: Place, first: tuple[Finished, float], tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    done, _ = first
    for key, path in report(place.storage, done.name).weights.items():
        rerun(place.storage, key, weights=tmp_path / "again.safetensors")
        kept, again = load_file(path), load_file(tmp_path / "again.safetensors")
        assert kept.keys() == again.keys()
        assert all(bool((kept[name] == again[name]).all()) for name in kept)


def test_a_seed_run_of_data_that_changed_is_not_compared(
    place: Place, first: tuple[Finished, float]
) -> None:
    (key, *_) = place.runs()
    text = place.data.read_text(encoding="utf-8")
    try:
        place.data.write_text(text.replace("film", "movie", 1), encoding="utf-8")
        with pytest.raises(SclsearchError, match=rf"^{key[:12]}: data must be what .* changed sin"):
            rerun(place.storage, key)
        place.data.unlink()
        with pytest.raises(SclsearchError, match=r"toy.csv"):
            rerun(place.storage, key)
    finally:
        place.data.write_text(text, encoding="utf-8")


def test_more_configurations_train_what_is_new_and_a_killed_worker_is_made_up_for(
    place: Place,
    first: tuple[Finished, float],
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
    assert place.weights(done.name) == {*report(place.storage, done.name).weights}
    for key in new:
        assert rerun(place.storage, key).differing == ()


@pytest.fixture(scope="module")
def troubled(
    asked: Asked, toy: OwnFiles, tiny_roberta: Path, tmp_path_factory: pytest.TempPathFactory
) -> Place:
    folder = tmp_path_factory.mktemp("trouble")
    space = folder / "trouble.yaml"
    space.write_text(TROUBLE, encoding="utf-8")
    return Place(folder / "storage", asked(model=str(tiny_roberta), space=space), toy.path)


@pytest.fixture(scope="module")
def four(troubled: Place) -> Finished:
    """Returns how a search of the first four configurations ended."""
    return troubled.run(configs=4, seeds=1, study="trouble", tracking="none")


def test_what_training_raises_fails_its_seed_run_for_good_and_the_search_goes_on(
    troubled: Place, four: Finished
) -> None:
    assert (four.ending, four.done, four.trained, four.failed) == ("complete", 4, 4, 2)
    runs = seed_runs(troubled.storage, "trouble")
    failures = {
        number: one.failure.cause
        for number, (one,) in runs.items()
        if one is not None and one.failure is not None
    }
    assert failures == {1: "non-finite", 2: "raised"}
    found = {line.number: line for line in report(troubled.storage, "trouble").configurations}
    assert "contrast: scl must be finite, but it is not at epoch 1" in str(
        found[1].seeds[0].failure
    )
    assert "'cls_pooled' must be backed by a pooler" in str(found[2].seeds[0].failure)
    assert found[1].score == found[2].score == 0.0
    assert found[0].score is not None
    assert found[0].score > 0


def test_a_failed_seed_run_is_not_trained_again_until_it_shall_be(
    troubled: Place, four: Finished
) -> None:
    before = troubled.runs()
    again = troubled.run(configs=4, seeds=1, study="trouble", tracking="none")
    assert (again.trained, again.failed) == (0, 2)
    assert troubled.runs() == before


def test_a_seed_run_that_hangs_is_tried_once_more_and_then_fails(
    troubled: Place, four: Finished, lost: Counter[tuple[int, str]], tmp_path: Path
) -> None:
    troubled = troubled.copy(tmp_path)
    done = troubled.run(configs=5, seeds=1, study="trouble", tracking="none", trial_timeout=8)
    assert (done.ending, done.done, done.trained, done.failed) == ("complete", 5, 1, 3)
    assert lost == {(4, "hang"): 2}
    (one,) = seed_runs(troubled.storage, "trouble")[4]
    assert one is not None
    assert one.failure is not None
    assert one.failure.cause == "hang"


@pytest.mark.parametrize(
    ("milliseconds", "epochs"), [(250, 8), (10_000, 100_000)], ids=["at its start", "in training"]
)
def test_a_worker_that_rays_memory_monitor_kills_does_not_end_the_search(
    place: Place,
    tmp_path: Path,
    lost: Counter[tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
    milliseconds: int,
    epochs: int,
) -> None:
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", str(milliseconds))
    elsewhere = Place(tmp_path, replace(place.what, settings={"epochs": epochs}), place.data)
    done = elsewhere.run(configs=1, seeds=1, study="memory", tracking="none")
    assert (done.ending, done.done, done.failed) == ("complete", 1, 1)
    assert lost == {(0, "out-of-memory"): 2}
    ((one,),) = seed_runs(tmp_path, "memory").values()
    assert one is not None
    assert one.failure is not None
    assert one.failure.cause == "out-of-memory"
    assert "killed due to the node running low on memory" in one.failure.message


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("OutOfMemoryError: 1 worker(s) were killed", "out-of-memory"),
        ("ray::ImplicitFunc.train()\nCUDA out of memory. Tried to allocate 2 GiB", "out-of-memory"),
        ("The actor died because its node has died. Node Id: 12", "node-lost"),
        ("The actor died because its node was terminated: a spot instance", "node-lost"),
        ("The actor died unexpectedly before finishing this task.", "worker-lost"),
        ("no reason given", "worker-lost"),
    ],
)
def test_the_cause_of_a_loss_is_read_from_what_ray_says(told: str, cause: str) -> None:
    from sclsearch.search.tuner import cause_of

    assert cause_of(told) == cause
