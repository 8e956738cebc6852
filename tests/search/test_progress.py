"""Tests of the progress line: finished seed runs and time left."""

from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from statistics import mean

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
    scheduler = prepare()
    found = scheduler.next()
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


def moments(begins: Sequence[float], each: int) -> Iterator[tuple[float, int, list[float]]]:
    """Yield the time, the number of finished seed runs and the ages of the others every 7 seconds.

    Workers begin at these times, and each trains so many seed runs without a pause.
    """
    for second in range(0, int(each * SECONDS), 7):
        gone = [divmod(second - begin, SECONDS) for begin in begins if begin <= second]
        yield float(second), sum(int(waves) for waves, _ in gone), [age for _, age in gone]


@pytest.mark.parametrize("spread", [0.0, 200.0])
@pytest.mark.parametrize("at_once", [1, 2, 64])
def test_the_time_left_is_correct_at_every_moment(
    clock: Clock, task: SeedRunTask, at_once: int, spread: float
) -> None:
    progress = progress_of(5 * at_once)
    begins = [spread * worker / at_once for worker in range(at_once)]
    end, checked = mean(begins) + 5 * SECONDS, 0
    for now, done, ages in moments(begins, 5):
        clock(now)
        while progress.done < done:
            progress.on_seed_run(task, trained(), stored=False)
        progress.tick([SECONDS] * done, ages)
        if not done:
            assert "left" not in progress.line().plain
            continue
        if len(ages) == at_once:
            assert progress.left() == pytest.approx(end - now)
            checked += 1
    assert checked > 30


def test_a_late_seed_run_gives_no_time_left(clock: Clock, task: SeedRunTask) -> None:
    progress = progress_of(2)
    clock(SECONDS)
    progress.on_seed_run(task, trained(), stored=False)
    clock(5 * SECONDS)
    progress.tick([SECONDS], [4 * SECONDS])
    assert progress.line().plain == "1/2 seed runs · 7:30"


def test_stored_and_lost_seed_runs_do_not_count_for_the_time_left(
    clock: Clock, task: SeedRunTask
) -> None:
    progress = progress_of(9)
    for _ in range(3):
        progress.on_seed_run(task, trained(), stored=True)
    clock(SECONDS)
    lost = trained(Failure("worker-lost", "gone"))
    progress.on_seed_run(task, lost, stored=False)
    progress.tick([], [0.0])
    line = "4/9 seed runs · 3 stored · 1 failed · 1:30"
    assert progress.line().plain == line
    clock(2 * SECONDS)
    progress.on_seed_run(task, trained(), stored=False)
    progress.tick([SECONDS], [0.0])
    assert progress.line().plain == "5/9 seed runs · 3 stored · 1 failed · 3:00 · 6:00 left"


def test_the_line_of_a_long_search_fits_into_80_columns(clock: Clock, task: SeedRunTask) -> None:
    progress = progress_of(1000)
    for _ in range(99):
        progress.on_seed_run(task, trained(), stored=True)
    clock(9 * 3600.0)
    progress.on_score(ConfigurationScore(99, -0.1234, 0.5, None, None))
    progress.on_seed_run(task, trained(), stored=False)
    progress.tick([4 * 3600.0], [4 * 3600.0] * 8)
    line = progress.line().plain
    assert line == (
        "100/1000 seed runs · 99 stored · best -0.1234 (#99) · 9:00:00 · 446:00:00 left"
    )
    assert len(line) <= 80
