"""Tests of the progress line: finished seed runs and time left."""

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from sclsearch.search.callbacks import Progress
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.study.state import ConfigurationScore, SeedRunTask
from tests.workspace import Prepare

SECONDS = 90.0
Clock = Callable[[float], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a function that sets the seconds since the search began."""
    now = [0.0]
    monkeypatch.setattr("sclsearch.search.callbacks.time.monotonic", lambda: now[0])
    return lambda seconds: now.__setitem__(0, seconds)


@pytest.fixture
def task(prepare: Prepare) -> SeedRunTask:
    """Return the task of a seed run."""
    found = prepare().next()
    assert found is not None
    return found


def trained(failure: Failure | None = None) -> SeedRun:
    """Return a seed run whose duration includes shared stages that another seed run trained."""
    return SeedRun(key="k", identity={}, origin={}, seconds=9 * SECONDS, failure=failure)


def progress_of(wanted: int) -> Progress:
    """Return the progress of a number of seed runs, started at 0 seconds."""
    progress = Progress(Console(file=StringIO()), wanted)
    progress.start()
    return progress


@pytest.mark.parametrize(("at_once", "spread"), [(1, 0.0), (2, 200.0), (64, 200.0)])
def test_the_time_left_is_correct_at_every_moment(
    clock: Clock, task: SeedRunTask, at_once: int, spread: float
) -> None:
    progress = progress_of(5 * at_once)
    begins = [spread * worker / at_once for worker in range(at_once)]
    end = sum(begins) / at_once + 5 * SECONDS
    checked = 0
    for now in range(0, int(5 * SECONDS), 7):
        clock(now)
        gone = [divmod(now - begin, SECONDS) for begin in begins if begin <= now]
        done, ages = sum(int(waves) for waves, _ in gone), [age for _, age in gone]
        while progress.done < done:
            progress.on_seed_run(task, trained(), stored=False)
        progress.tick([SECONDS] * done, ages)
        if not done:
            assert "left" not in progress.line().plain
        elif len(ages) == at_once:
            assert progress.left() == pytest.approx(end - now)
            checked += 1
    assert checked > 30


def test_skipped_seed_runs_and_late_ones_take_no_time(clock: Clock, task: SeedRunTask) -> None:
    progress = progress_of(4)
    progress.skipped = 2
    clock(SECONDS)
    progress.on_seed_run(task, trained(), stored=False)
    progress.tick([SECONDS], [0.0])
    assert progress.line().plain == "1/4 seed runs · 1:30 · 1:30 left"
    clock(5 * SECONDS)
    progress.tick([SECONDS], [4 * SECONDS])
    assert progress.line().plain == "1/4 seed runs · 7:30"


def test_stored_and_lost_seed_runs_do_not_count_for_the_time_left(
    clock: Clock, task: SeedRunTask
) -> None:
    progress = progress_of(9)
    for _ in range(3):
        progress.on_seed_run(task, trained(), stored=True)
    clock(SECONDS)
    progress.on_seed_run(task, trained(Failure("worker-lost", "gone")), stored=False)
    progress.tick([], [0.0])
    assert progress.line().plain == "4/9 seed runs · 3 stored · 1 failed · 1:30"
    clock(2 * SECONDS)
    progress.on_seed_run(task, trained(), stored=False)
    progress.tick([SECONDS], [0.0])
    assert progress.line().plain == "5/9 seed runs · 3 stored · 1 failed · 3:00 · 6:00 left"


def test_the_line_of_a_long_search_fits_into_80_columns(clock: Clock, task: SeedRunTask) -> None:
    progress = progress_of(1000)
    for _ in range(99):
        progress.on_seed_run(task, trained(), stored=True)
    clock(9 * 3600.0)
    for number, score in ((98, -0.2), (99, -0.1234), (97, -0.3)):
        progress.on_score(ConfigurationScore(number, score, 0.5, None, None))
    progress.on_seed_run(task, trained(), stored=False)
    progress.tick([4 * 3600.0], [4 * 3600.0] * 8)
    line = progress.line().plain
    assert line == (
        "100/1000 seed runs · 99 stored · best -0.1234 (#99) · 9:00:00 · 446:00:00 left"
    )
    assert len(line) <= 80
