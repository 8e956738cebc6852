"""Progress display of a search."""

import statistics
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sclsearch.search.callbacks import Callback
from sclsearch.store.runs import SeedRun
from sclsearch.study.state import ConfigurationScore, Running, SeedRunTask

REFRESH_SECONDS = 0.5
PLAIN_SECONDS = 30.0


class Progress(Callback):
    """Progress display: a live line on a terminal, plain lines elsewhere.

    It shows finished seed runs of `wanted`, those in training, failures, the highest score and the
    time left.
    """

    def __init__(self, console: Console, wanted: int) -> None:
        self.console, self.wanted = console, wanted
        self.done = self.stored = self.failed = 0
        self.skipped = 0  # seed runs that a race will probably leave out
        self.best: ConfigurationScore | None = None
        self.finished_seconds: Sequence[float] = ()
        self.stored_seconds: list[float] = []
        self.running: Sequence[Running] = ()
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

    def tick(self, finished_seconds: Sequence[float], running: Sequence[Running]) -> None:
        """Update the display, at a readable rate.

        `finished_seconds` are the durations of finished trials.
        """
        now = time.monotonic()
        self.finished_seconds, self.running = finished_seconds, running
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
        if stored and run.failure is None:
            self.stored_seconds.append(run.seconds)

    def on_score(self, score: ConfigurationScore) -> None:
        self.best = max(self.best or score, score, key=lambda one: one.rank)

    def line(self) -> Text:
        parts = [f"{self.done}/{self.wanted} seed runs"]
        if self.stored:
            parts.append(f"{self.stored} stored")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if share := sum(one.share for one in self.running):
            parts.append(f"{len(self.running)} in training ({share / len(self.running):.0%})")
        if self.repeating:
            parts.append(f"{self.repeating} of the winner again for tests or weights")
        if self.best is not None:
            parts.append(f"highest {self.best.score:.4f} (#{self.best.number})")
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
        running = self.running
        expected = [one.expected for one in running if one.expected is not None]
        seconds = self.finished_seconds or self.stored_seconds or expected
        if not seconds or not running or self.repeating:
            return 0.0
        # Without running seed runs the estimate would be too high before a group of them finishes,
        # and would grow every second.
        each = statistics.fmean(seconds)
        going = sum(one.share or min(one.seconds / each, 1) for one in running)
        return max(0, self.wanted - self.skipped - self.done - going) * each / len(running)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
