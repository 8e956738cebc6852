"""Tests of the progress line: finished seed runs and time left."""

from io import StringIO

import pytest
from rich.console import Console

from sclsearch.search.callbacks import Progress
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.study.state import ConfigurationScore
from tests.workspace import Prepare

SECONDS = 90.0


class Shown:
    """Progress line of a search with a clock that the test sets, from 0 seconds on."""

    def __init__(self, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("sclsearch.search.callbacks.time.monotonic", lambda: self.now)
        task = prepare().next()
        assert task is not None
        self.task = task

    def start(self, wanted: int) -> Progress:
        self.progress = Progress(Console(file=StringIO()), wanted)
        self.progress.start()
        return self.progress

    def finish(self, count: int = 1, failure: Failure | None = None, stored: bool = False) -> None:
        """Finish seed runs, whose durations include shared stages that others trained."""
        run = SeedRun(key="k", identity={}, origin={}, seconds=9 * SECONDS, failure=failure)
        for _ in range(count):
            self.progress.on_seed_run(self.task, run, stored=stored)

    def line(self, finished: list[float], ages: list[float]) -> str:
        self.progress.tick(finished, ages)
        return self.progress.line().plain


@pytest.fixture
def shown(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(prepare, monkeypatch)


def test_stored_lost_skipped_and_late_seed_runs_do_not_change_the_time_left(shown: Shown) -> None:
    shown.start(11).skipped = 2
    shown.finish(3, stored=True)
    shown.now = SECONDS
    shown.finish(failure=Failure("worker-lost", "gone"))
    assert shown.line([], [0.0]) == "4/11 seed runs · 3 stored · 1 failed · 1:30"
    shown.now = 2 * SECONDS
    shown.finish()
    line = "5/11 seed runs · 3 stored · 1 failed"
    assert shown.line([SECONDS], [0.0]) == f"{line} · 3:00 · 6:00 left"
    shown.now = 8 * SECONDS
    assert shown.line([SECONDS], [6 * SECONDS]) == f"{line} · 12:00 · 4:30 left"


def test_the_line_of_a_long_search_fits_into_80_columns(shown: Shown) -> None:
    progress = shown.start(1000)
    shown.finish(99, stored=True)
    shown.now = 9 * 3600.0
    for number, score in ((98, -0.2), (99, -0.1234), (97, -0.3)):
        progress.on_score(ConfigurationScore(number, score, 0.5, None, None))
    shown.finish()
    line = shown.line([4 * 3600.0], [4 * 3600.0] * 8)
    assert line == "100/1000 seed runs · 99 stored · best -0.1234 (#99) · 9:00:00 · 446:00:00 left"
    assert len(line) <= 80
