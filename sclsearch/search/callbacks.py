"""Callbacks for search events, among them the progress display."""

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sclsearch.errors import SclsearchError
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import ConfigurationRecord, StudyRecord
from sclsearch.study.state import ConfigurationScore, SeedRunTask

REFRESH_SECONDS = 0.5
PLAIN_SECONDS = 30.0


class Callback:
    """Base class of callbacks for search events; each method does nothing by default.

    Pass instances of a subclass as `sclsearch.tune(…, callbacks=[…])`. All methods run in the
    process that called `tune`, not in Ray's workers. A resumed search repeats the events of stored
    results. An exception ends the search with an error that names the callback; finished seed runs
    stay in the storage.

    Example:
        >>> class Best(Callback):
        ...     def on_score(self, score):
        ...         print(score.number, score.score)
    """

    def on_study(self, study: StudyRecord) -> None:
        """Handle the start of a study; further events belong to it until the next study starts."""

    def on_configuration(self, configuration: ConfigurationRecord) -> None:
        """Handle a configuration that the search has just opened."""

    def on_evaluation(self, task: SeedRunTask, evaluation: Mapping[str, Any]) -> None:
        """Handle an evaluation of a running seed run, which reports one every 30 seconds.

        `evaluation` has `update`, `epoch`, the mean `loss` by term, and the `validation` result.
        """

    def on_seed_run(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        """Handle a finished seed run, or its failure.

        `task` has its configuration and replicate. `stored` is True if the store held it before
        this search.
        """

    def on_score(self, score: ConfigurationScore) -> None:
        """Handle the score of a configuration whose seed runs have all finished."""


def notify(callbacks: Sequence[Callback], event: str, *args: Any, **options: Any) -> None:
    """Call the method named `event` of each callback; an error names the callback."""
    for callback in callbacks:
        try:
            getattr(callback, event)(*args, **options)
        except SclsearchError:
            raise
        except Exception as error:
            raise SclsearchError(
                f"{type(callback).__name__}.{event}: this callback raised "
                f"{type(error).__name__}: {error}. Fix it and run the search again to resume; "
                "finished seed runs are stored."
            ) from error


class Progress(Callback):
    """Progress display: a live line on a terminal, plain lines elsewhere.

    It shows finished seed runs of `wanted`, failures, the best score and the time left.
    """

    def __init__(self, console: Console, wanted: int) -> None:
        self.console, self.wanted = console, wanted
        self.done = self.stored = self.failed = 0
        self.skipped = 0  # seed runs that a race will probably leave out
        self.best: ConfigurationScore | None = None
        self.finished_seconds: Sequence[float] = ()
        self.running_seconds: Sequence[float] = ()
        self.begun = time.monotonic()
        self.shown = 0.0
        self.live: Live | None = None
        self.no_room = False  # no node has room for a seed run yet
        self.repeating = 0  # seed runs of the winner that train again

    def start(self) -> None:
        self.begun = time.monotonic()
        if self.console.is_terminal:
            self.live = Live(self.line(), console=self.console, auto_refresh=False, transient=True)
            self.live.start()

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None
        self.console.print(self.line())

    def tick(self, finished_seconds: Sequence[float], running_seconds: Sequence[float]) -> None:
        """Update the display, at a readable rate.

        `finished_seconds` are the durations of finished trials, `running_seconds` ages of others.
        """
        now = time.monotonic()
        self.finished_seconds, self.running_seconds = finished_seconds, running_seconds
        if now - self.shown < (REFRESH_SECONDS if self.live else PLAIN_SECONDS):
            return
        self.shown = now
        if self.live is not None:
            self.live.update(self.line(), refresh=True)
        else:
            self.console.print(self.line())

    def on_seed_run(self, _task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        self.done += 1
        self.stored += stored
        self.failed += run.failure is not None

    def on_score(self, score: ConfigurationScore) -> None:
        self.best = max(self.best or score, score, key=lambda one: one.rank)

    def line(self) -> Text:
        parts = [f"{self.done}/{self.wanted} seed runs"]
        if self.stored:
            parts.append(f"{self.stored} stored")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.repeating:
            parts.append(f"{self.repeating} to train again")
        if self.best is not None:
            parts.append(f"best {self.best.score:.4f} (#{self.best.number})")
        elapsed = time.monotonic() - self.begun
        trained = self.done - self.stored
        if self.no_room and not trained:
            parts.append("no node has room yet")
        parts.append(_clock(elapsed))
        left = round(self.left())
        if left:
            parts.append(f"{_clock(left)} left")
        return Text(" · ".join(parts), overflow="ellipsis", no_wrap=True)

    def left(self) -> float:
        """Return the estimated seconds left at the present speed, or 0 without an estimate."""
        running = self.running_seconds
        if not self.finished_seconds or not running or self.repeating:
            return 0.0
        # Running seed runs count by their age. Without them the estimate would be too high before a
        # group of seed runs finishes, and would grow every second.
        each = statistics.fmean(self.finished_seconds)
        going = sum(min(age / each, 1) for age in running)
        return max(0, self.wanted - self.skipped - self.done - going) * each / len(running)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
