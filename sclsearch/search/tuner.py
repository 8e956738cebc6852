"""Ray Tune around the board: a searcher, a scheduler that names failures, a watchdog.

A new Tuner is made at every start and Ray's own snapshots are never read: the run store is the
truth, and the board has read it.
"""

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import ray
from ray import tune
from ray.air.execution._internal import actor_manager
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from sclsearch.canonical import canonical
from sclsearch.search.board import Board, SeedTask
from sclsearch.search.cluster import fitting, send_own_code
from sclsearch.search.options import Ending
from sclsearch.search.trial import Bench, seed_run_trial


class SeedSearcher(Searcher):
    """Hands the board's seed runs to Ray Tune, one trial each."""

    def __init__(self, board: Board, may_start: Callable[[], bool]) -> None:
        super().__init__(metric="key", mode="max")
        self.board = board
        self.may_start = may_start
        self.tasks: dict[str, SeedTask] = {}
        self.causes: dict[str, tuple[str, str]] = {}

    def suggest(self, trial_id: str) -> Any:
        """Returns a trial's config, None to wait, FINISHED at the end."""
        task = self.board.next() if self.may_start() else None
        if task is None:
            return None if self.board.running else Searcher.FINISHED
        self.tasks[trial_id] = task
        configuration, replicate = task.place
        return {
            "configuration": configuration,
            "replicate": replicate,
            "fields": canonical(task.configuration.fields),
        }

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Takes the seed run from the store; what is not there was lost on the way."""
        task = self.tasks.pop(trial_id)
        run = self.board.runs.get(task.key)
        if run is not None:
            self.board.finish(task, run)
        elif error or result is None:
            self.board.lose(task, *self.causes.pop(trial_id, ("worker-lost", "no reason given")))
        else:
            self.board.lose(task, "out-of-memory", result.get("out_of_memory") or "no figures")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Does nothing: a seed run reports once, at its end."""

    def save(self, checkpoint_path: str) -> None:
        """Does nothing: the run store is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Does nothing: a new searcher reads the run store."""

    def __getstate__(self) -> dict[str, Any]:
        """Returns nothing: Ray writes a Tuner to disk and no one reads it back."""
        return {}


class SeedScheduler(FIFOScheduler):
    """Tells the searcher why a trial ended before the searcher hears that it did."""

    def __init__(self, searcher: SeedSearcher, hung: set[str]) -> None:
        super().__init__()
        self.searcher, self.hung = searcher, hung

    def on_trial_error(self, _controller: Any, trial: Trial) -> None:
        """Names the cause of a trial's end."""
        told = _told(trial)
        cause = "hang" if trial.trial_id in self.hung else cause_of(told)
        # A traceback ends with what happened, Ray's other errors begin with it.
        line = told.splitlines()[-1 if told.startswith("ray::") else 0]
        self.searcher.causes[trial.trial_id] = (cause, line[:300])

    def __getstate__(self) -> dict[str, Any]:
        """Returns nothing, as the searcher does."""
        return {}


class Watchdog(tune.Callback):
    """Ends trials that take too long, and lets the progress line live.

    Args:
        timeout: Seconds after which a trial counts as hung; None never.
        tick: Called in every step of the loop.
    """

    def __init__(self, timeout: float | None, tick: Callable[[], None]) -> None:
        self.timeout, self.tick = timeout, tick
        self.started: dict[str, float] = {}
        self.hung: set[str] = set()

    def on_trial_start(self, *, trial: Trial, **_: Any) -> None:
        """Starts the trial's clock."""
        self.started[trial.trial_id] = time.monotonic()

    def on_step_end(self, *, trials: list[Trial], **_: Any) -> None:
        """Ends what hangs: only the end of its process stops a call that holds the interpreter."""
        self.tick()
        if self.timeout is None:
            return
        now = time.monotonic()
        for trial in trials:
            late = now - self.started.get(trial.trial_id, now) > self.timeout
            if late and trial.status == Trial.RUNNING and trial.trial_id not in self.hung:
                self.hung.add(trial.trial_id)
                ray.kill(trial.temporary_state.ray_actor)

    def __getstate__(self) -> dict[str, Any]:
        """Returns nothing, as the searcher does."""
        return {}


def cause_of(told: str) -> str:
    """Returns the kind of a trial's failure, by which it is tried again or not.

    Args:
        told: What Ray says of it.
    """
    if "OutOfMemoryError" in told or "out of memory" in told.lower():
        return "out-of-memory"
    if "StorageError" in told:
        return "storage-lost"
    if "node has died" in told or "node was terminated" in told:
        return "node-lost"
    return "worker-lost"


def fit(
    board: Board,
    bench: Bench,
    *,
    cpus: int,
    gpus: float,
    concurrency: int | None,
    time_budget: float | None,
    trial_timeout: float | None,
    tick: Callable[[], None],
    reuse_actors: bool = True,
) -> Ending:
    """Trains what the board still wants; returns why it ended.

    Ctrl-C and SIGTERM end it in order: running seed runs are given up, nothing finished is lost.
    """
    mend_out_of_memory()
    deadline = None if time_budget is None else time.monotonic() + time_budget
    searcher = SeedSearcher(board, lambda: deadline is None or time.monotonic() < deadline)
    watchdog = Watchdog(trial_timeout, tick)
    with tempfile.TemporaryDirectory(prefix="sclsearch-ray-") as scratch, _sigterm_as_interrupt():
        send_own_code(bench.study.method)
        tune.Tuner(
            tune.with_resources(
                tune.with_parameters(seed_run_trial, bench=bench), {"cpu": cpus, "gpu": gpus}
            ),
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                scheduler=SeedScheduler(searcher, watchdog.hung),
                num_samples=-1,
                max_concurrent_trials=concurrency or fitting(cpus, gpus),
                reuse_actors=reuse_actors,
            ),
            run_config=tune.RunConfig(
                storage_path=scratch,
                verbose=0,
                callbacks=[watchdog],
                failure_config=tune.FailureConfig(max_failures=0),
            ),
        ).fit()
    if board.complete:
        return "complete"
    return "interrupted" if searcher.may_start() else "out of time"


def _told(trial: Trial) -> str:
    """Returns what Ray says of a trial's end; its own reader looks where that arrives later."""
    file = Path(trial.error_file or "")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return text.partition("\n")[2].strip() or "no reason given"


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        # Tune ends in order on SIGUSR1, as it does on Ctrl-C.
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def mend_out_of_memory() -> None:
    """Makes Tune treat a worker that Ray's memory monitor killed as a failed trial.

    Ray 2.60 knows actor and task errors alone. OutOfMemoryError is neither: it ends the whole run
    if it comes while a trial runs, and leaves no cause behind if it comes while a worker starts.
    """
    manager = actor_manager.RayActorManager
    for name in ("_actor_start_failed", "_actor_task_failed"):
        original = getattr(manager, name)
        if not getattr(original, "mended", False):
            setattr(manager, name, _mended(original))


def _mended(original: Callable[..., None]) -> Callable[..., None]:
    def mended(self: Any, *, exception: Exception, **tracked: Any) -> None:
        known = isinstance(exception, RayActorError | RayTaskError)
        if isinstance(exception, RayError) and not known:
            exception = RayActorError(error_msg=f"{type(exception).__name__}: {exception}"[:400])
        original(self, exception=exception, **tracked)

    mended.mended = True  # type: ignore[attr-defined]
    return mended
