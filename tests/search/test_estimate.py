"""Tests of the estimated time before a search, and of the time left in its progress line."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from sclsearch.search.plan import estimated_seconds
from sclsearch.search.progress import Progress
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure
from sclsearch.study.state import ConfigurationScore, Running
from tests.studies import Prepare, Workers


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the machine 4 cores."""
    monkeypatch.setattr("sclsearch.ray_backend.start.cores", lambda: 4)


def estimated(prepared: Scheduler) -> float | None:
    scheduler = replace(prepared, dry=True)
    scheduler.refill()
    return estimated_seconds(scheduler)


def test_the_time_of_the_missing_seed_runs_is_that_of_the_stored_ones(
    prepare: Prepare,
) -> None:
    assert estimated(prepare(seeds=3)) is None
    scheduler, workers = prepare(seeds=3).begin(), Workers(seconds=60.0)
    for task in workers.running(scheduler, 2):
        workers.finish(scheduler, task)
    assert (scheduler.remaining, scheduler.repeated) == (10, 0)
    for concurrency, seconds in ((1, 600.0), (2, 300.0), (4, 180.0)):
        assert estimated(prepare(seeds=3, concurrency=concurrency)) == seconds


SECONDS = 90.0


def test_stored_lost_skipped_and_late_seed_runs_do_not_change_the_time_left(
    prepare: Prepare, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("sclsearch.search.progress.time.monotonic", lambda: now)
    (task,) = workers.running(prepare(), 1)
    run, progress = workers.trained(task), Progress(Console(file=StringIO()), 11)
    stored = replace(run, seconds=SECONDS)

    def line(finished: list[float], ages: list[float], *shares: float) -> str:
        running = [Running(age) for age in ages]
        progress.tick(finished, running + [Running(0.0, share, SECONDS) for share in shares])
        return progress.line().plain

    progress.start()
    progress.skipped = 2
    assert line([], [0.0]) == "0/11 seed runs · 0:00"
    first = line([], [], 0.5, 0.25)  # the speed of those in training
    assert first == "0/11 seed runs · 2 in training (38%) · 0:00 · 6:11 left"
    for _ in range(3):
        progress.on_seed_run(task, stored, stored=True)
    now = SECONDS
    progress.on_seed_run(task, replace(run, failure=Failure("raised", "a test")), stored=False)
    assert line([], [0.0]) == "4/11 seed runs · 3 stored · 1 failed · 1:30 · 7:30 left"
    now = 2 * SECONDS
    progress.on_seed_run(task, run, stored=False)
    counts = "5/11 seed runs · 3 stored · 1 failed"
    assert line([SECONDS], [0.0]) == f"{counts} · 3:00 · 6:00 left"
    for number, score in ((98, -0.2), (99, -0.1234), (97, -0.3)):
        progress.on_score(ConfigurationScore(number, score, 0.5, None, None))
    now = 8 * SECONDS
    best = "highest -0.1234 (#99)"
    assert line([SECONDS], [6 * SECONDS]) == f"{counts} · {best} · 12:00 · 4:30 left"
    assert line([SECONDS], [0.0, 0.0]).endswith("3:00 left")
    progress.wanted = 7  # the last seed run has finished, and its trial not yet
    assert line([SECONDS], [SECONDS]) == f"5/7 seed runs · 3 stored · 1 failed · {best} · 12:00"
