"""Tests of failures in a search with Ray: seed runs, storage, driver and memory."""

import threading
from collections import Counter
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.store import lock as locks
from sclsearch.store.runs import Failure
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
  - {smoothing: 0.3, epochs: 100000}
fixed: {max_length: 16, learning_rate: 1e-3}
space:
  smoothing: {type: choice, values: [0.3, 0.9, 1.0]}
  epochs: {type: choice, values: [2, 100000]}
"""
"""The second configuration has a loss that is not finite, one raises an error, one never ends."""
FAILING_LOSS = """        if self.smoothing == 0.9:
            raise RuntimeError("no smoothing of 0.9")
        scores = self.scores(model, batch) / (1 - self.smoothing)
"""


def failures(workspace: Workspace, study: str) -> dict[int, Failure]:
    """Return the failures of a study of one seed by configuration."""
    runs = workspace.seed_runs(study).items()
    return {
        number: one.failure
        for number, found in runs
        for one in found
        if one is not None and one.failure
    }


def test_a_seed_run_that_raises_hangs_or_is_not_finite_fails_and_the_search_continues(
    workspace: Workspace,
    custom_method: str,
    write_space: WriteSpace,
    tmp_path: Path,
    worker_failures: Counter[tuple[int, str]],
) -> None:
    file = tmp_path / "mine.py"
    original = "        scores = self.scores(model, batch)\n"
    file.write_text(custom_method.replace(original, FAILING_LOSS), encoding="utf-8")
    here = workspace.elsewhere(
        tmp_path, method=f"{file}:Smoothed", space=write_space(FAILING_SPACE)
    )
    with in_process():
        result = here.run(configs=3, seeds=1, study="trouble", tracking="none")
    assert (result.ending, result.trained, result.failed) == ("complete", 3, 2)
    found = {line.number: line for line in report(here.storage, "trouble").configurations}
    assert found[1].score == found[2].score == 0.0
    assert (found[0].score or 0) > 0
    result = here.run(configs=4, seeds=1, study="trouble", tracking="none", trial_timeout=3)
    assert (result.ending, result.trained, result.failed) == ("complete", 1, 3)
    assert worker_failures == {(3, "hang"): 2}
    found_failures = failures(here, "trouble")
    causes = {number: failure.cause for number, failure in found_failures.items()}
    assert causes == {1: "non-finite", 2: "raised"}
    assert "fine-tuning: loss term ce is " in found_failures[1].message
    assert "no smoothing of 0.9 (mine.py:" in found_failures[2].message


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
    (failure,) = failures(workspace, "memory").values()
    assert failure.cause == "out-of-memory"
    assert "killed due to the node running low on memory" in failure.message
