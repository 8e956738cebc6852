"""Tests of failures in a search with Ray: seed runs, storage, driver and memory."""

import threading
from collections import Counter
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.search.scheduler import Scheduler
from sclsearch.store import lock as locks
from tests.in_process import in_process
from tests.search.beside import beside
from tests.workspace import Workspace, WriteSpace

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

FAILING_SPACE = """
method: Smoothed
source: a test
published:
  - {smoothing: 0.3, epochs: 2}
  - {smoothing: 1.0, epochs: 2}
  - {smoothing: 0.9, epochs: 2}
  - {smoothing: 0.5, epochs: 2}
  - {smoothing: 0.3, epochs: 100000}
fixed: {max_length: 16, learning_rate: 1e-3}
space:
  smoothing: {type: choice, values: [0.3, 0.5, 0.9, 1.0]}
  epochs: {type: choice, values: [2, 100000]}
"""
"""One configuration has a loss that is not finite, one raises an error, one never ends."""
FAILING_LOSS = """        if self.smoothing == 0.9:
            raise RuntimeError("no smoothing of 0.9")
        scores = self.scores(model, batch) / (1 - self.smoothing)
"""


@pytest.fixture(scope="module")
def failing(
    workspace: Workspace,
    custom_method: str,
    write_space: WriteSpace,
    tmp_path_factory: pytest.TempPathFactory,
) -> Workspace:
    folder = tmp_path_factory.mktemp("trouble")
    file = folder / "mine.py"
    original = "        scores = self.scores(model, batch)\n"
    assert original in custom_method
    file.write_text(custom_method.replace(original, FAILING_LOSS), encoding="utf-8")
    return workspace.elsewhere(folder, method=f"{file}:Smoothed", space=write_space(FAILING_SPACE))


@pytest.fixture(scope="module")
def first_search(failing: Workspace) -> Scheduler:
    """Return the result of a search of the first four configurations."""
    with in_process():
        return failing.run(configs=4, seeds=1, study="trouble", tracking="none")


def test_an_exception_in_training_fails_its_seed_run_and_the_search_continues(
    failing: Workspace, first_search: Scheduler
) -> None:
    assert (first_search.ending, first_search.done, first_search.trained, first_search.failed) == (
        "complete",
        4,
        4,
        2,
    )
    runs = failing.seed_runs("trouble")
    failures = {
        number: one.failure.cause
        for number, (one,) in runs.items()
        if one is not None and one.failure is not None
    }
    assert failures == {1: "non-finite", 2: "raised"}
    found = {line.number: line for line in report(failing.storage, "trouble").configurations}
    assert "fine-tuning: loss term ce is " in str(found[1].seeds[0].failure)
    assert "no smoothing of 0.9 (mine.py:" in str(found[2].seeds[0].failure)
    assert found[1].score == found[2].score == 0.0
    assert found[0].score is not None
    assert found[0].score > 0


def test_a_failed_seed_run_is_not_trained_again_by_default(
    failing: Workspace, first_search: Scheduler
) -> None:
    before = failing.runs()
    again = failing.run(configs=4, seeds=1, study="trouble", tracking="none")
    assert (again.trained, again.failed) == (0, 2)
    assert failing.runs() == before


def test_a_seed_run_that_hangs_is_retried_once_and_then_fails(
    failing: Workspace,
    first_search: Scheduler,
    worker_failures: Counter[tuple[int, str]],
    tmp_path: Path,
) -> None:
    failing = failing.copy(tmp_path)
    result = failing.run(configs=5, seeds=1, study="trouble", tracking="none", trial_timeout=3)
    assert (result.ending, result.done, result.trained, result.failed) == ("complete", 5, 1, 3)
    assert worker_failures == {(4, "hang"): 2}
    (one,) = failing.seed_runs("trouble")[4]
    assert one is not None
    assert one.failure is not None
    assert one.failure.cause == "hang"


def test_a_storage_that_disappears_ends_the_search_with_its_error(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace = workspace.elsewhere(tmp_path)
    folder = workspace.storage / "runs"

    def unmount(over: threading.Event) -> None:
        while not over.wait(0.02):
            if workspace.runs():
                folder.rename(workspace.storage / "elsewhere")
                folder.touch()
                break

    with beside(unmount), pytest.raises(NotADirectoryError, match=str(folder)):
        workspace.run(configs=8, tracking="none")


def test_a_driver_that_loses_its_study_to_another_driver_ends(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.05)
    workspace = workspace.elsewhere(tmp_path)

    def take(over: threading.Event) -> None:
        while not over.wait(locks.BEAT_SECONDS):
            if workspace.runs():
                for beat in (workspace.storage / "studies" / "mine").glob("driver-*.json"):
                    beat.unlink(missing_ok=True)  # the driver may be writing one of them

    with beside(take), pytest.raises(SclsearchError, match=r"^mine: this driver stalled"):
        workspace.run(configs=16, seeds=8, tracking="none", study="mine")
    assert len(workspace.runs()) < 128


def test_a_worker_that_rays_memory_monitor_kills_does_not_end_the_search(
    workspace: Workspace,
    tmp_path: Path,
    worker_failures: Counter[tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "4000")
    workspace = workspace.elsewhere(tmp_path, settings={"epochs": 100_000})
    result = workspace.run(configs=1, seeds=1, study="memory", tracking="none")
    assert (result.ending, result.done, result.failed) == ("complete", 1, 1)
    assert worker_failures == {(0, "out-of-memory"): 2}
    ((one,),) = workspace.seed_runs("memory").values()
    assert one is not None
    assert one.failure is not None
    assert one.failure.cause == "out-of-memory"
    assert "killed due to the node running low on memory" in one.failure.message
