"""Ray Tune around the board: a searcher, a scheduler that names failures, a watchdog.

A new Tuner is made at every start and Ray's own snapshots are never read: the run store is the
truth, and the board has read it.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.search.board import Board
from sclsearch.search.cluster import send_own_code
from sclsearch.search.leftovers import scratch_folder
from sclsearch.search.listener import SeedTask
from sclsearch.search.losses import cause_of, line_of, mend_out_of_memory, node_of, told_of
from sclsearch.search.options import Ending, How
from sclsearch.search.progress import Pace
from sclsearch.search.retries import Loss
from sclsearch.search.signals import END_SIGNAL
from sclsearch.search.trial import Bench, seed_run_trial


class SeedSearcher(Searcher):
    """Hands the board's seed runs to Ray Tune, one trial each.

    Args:
        board: The board.
        deadline: When no seed run starts any more, Unix seconds; infinite for never.
    """

    def __init__(self, board: Board, deadline: float) -> None:
        super().__init__(metric="key", mode="max")
        self.board, self.deadline = board, deadline
        self.tasks: dict[str, SeedTask] = {}
        self.causes: dict[str, Loss] = {}
        self.fault: Exception | None = None

    def suggest(self, trial_id: str) -> Any:
        """Returns a trial's config, None to wait, FINISHED at the end."""
        task = None
        with self.keeping_fault():
            task = None if self.late else self.board.next()
        if task is None:
            return None if self.board.running else Searcher.FINISHED
        self.tasks[trial_id] = task
        return {
            "configuration": task.configuration.number,
            "replicate": task.replicate.number,
            "fields": canonical(task.configuration.fields),
            "deadline": self.deadline,
        }

    @property
    def late(self) -> bool:
        """Whether no seed run starts any more."""
        return time.time() > self.deadline

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Takes the seed runs from the store; what is not there was lost on the way."""
        loss = self.causes.pop(trial_id, Loss("worker-lost", "no reason given"))
        if not error and result is not None:
            loss = _told_by_worker(result)
        with self.keeping_fault():
            task = self.tasks.pop(trial_id)
            _check_key(task, result or {})
            run = self.board.runs.get(task.key)
            if run is not None:
                self.board.finish(task, run, node=loss.node)
            elif result and result.get("late"):
                self.board.put_back(task)
            else:
                self.board.lose(task, loss)

    @contextmanager
    def keeping_fault(self) -> Iterator[None]:
        """Keeps what the body raises for the end; Tune would go on and tell of its own trouble."""
        try:
            yield
        except Exception as error:
            self.fault = self.fault or error

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Does nothing: a trial reports once, at its end."""

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
        told = told_of(trial)
        cause = "hang" if trial.trial_id in self.hung else cause_of(told)
        self.searcher.causes[trial.trial_id] = Loss(cause, line_of(told)[:300], node_of(told))

    def __getstate__(self) -> dict[str, Any]:
        """Returns nothing, as the searcher does."""
        return {}


class Watchdog(tune.Callback):
    """Ends trials that take too long, and lets the progress line live.

    Args:
        searcher: The searcher.
        timeout: Seconds after which a trial has hung; None never.
        tick: Called in every step of the loop; what it raises ends the search.
    """

    def __init__(
        self, searcher: SeedSearcher, timeout: float | None, tick: Callable[[Pace], None]
    ) -> None:
        self.searcher, self.tick = searcher, tick
        self.timeout = math.inf if timeout is None else timeout
        self.running: dict[str, tuple[Trial, float]] = {}
        self.took: list[float] = []
        self.hung: set[str] = set()

    def on_trial_start(self, *, trial: Trial, **_: Any) -> None:
        """Starts the trial's clock."""
        self.running[trial.trial_id] = trial, time.monotonic()

    def on_trial_complete(self, *, trial: Trial, **_: Any) -> None:
        """Stops the trial's clock, and keeps what it tells."""
        if trial.trial_id in self.running:
            _, begun = self.running.pop(trial.trial_id)
            self.took.append(time.monotonic() - begun)

    def on_trial_error(self, *, trial: Trial, **_: Any) -> None:
        """Stops the trial's clock."""
        self.running.pop(trial.trial_id, None)

    def on_step_end(self, **_: Any) -> None:
        """Ends what hangs: only the end of its process stops a call that holds the interpreter."""
        now = time.monotonic()
        running = [(trial, now - begun) for trial, begun in self.running.values()]
        with self.searcher.keeping_fault():
            self.tick(Pace(self.took, [age for _, age in running]))
        # What waits for a node that never comes would keep the search from its end.
        if (self.searcher.late and not running) or self.searcher.fault is not None:
            signal.raise_signal(END_SIGNAL)
        for trial, age in running:
            if age > self.timeout and trial.trial_id not in self.hung:
                self.hung.add(trial.trial_id)
                ray.kill(trial.temporary_state.ray_actor)

    def __getstate__(self) -> dict[str, Any]:
        """Returns nothing, as the searcher does."""
        return {}


def fit(
    board: Board,
    bench: Bench,
    how: How,
    *,
    gpus: float,
    concurrency: int,
    tick: Callable[[Pace], None],
    reuse_actors: bool = True,
) -> Ending:
    """Trains what the board still wants; returns why it ended.

    Ctrl-C and `END_SIGNAL` end it in order: running seed runs are given up, nothing finished is
    lost. `gpus` and `concurrency` are what comes of `how` on this cluster.

    Raises:
        SclsearchError: The storage was away, a machine is unfit, or another driver took the study.
    """
    mend_out_of_memory()
    deadline = math.inf if how.time_budget is None else time.time() + how.time_budget
    searcher = SeedSearcher(board, deadline)
    watchdog = Watchdog(searcher, how.trial_timeout, tick)
    with scratch_folder() as scratch:
        send_own_code(bench.study.method)
        tune.Tuner(
            tune.with_resources(
                tune.with_parameters(seed_run_trial, bench=bench),
                {"cpu": how.cpus_per_trial, "gpu": gpus},
            ),
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                scheduler=SeedScheduler(searcher, watchdog.hung),
                num_samples=-1,
                max_concurrent_trials=concurrency,  # without it Ray asks for one node at a time
                reuse_actors=reuse_actors,
            ),
            run_config=tune.RunConfig(
                storage_path=str(scratch),
                verbose=0,
                callbacks=[watchdog],
                failure_config=tune.FailureConfig(max_failures=0),
            ),
        ).fit()
    if searcher.fault is not None:
        raise searcher.fault
    board.settle()
    if board.complete:
        return "complete"
    return "out of time" if searcher.late else "interrupted"


def _told_by_worker(result: dict[str, Any]) -> Loss:
    """Returns what became of a seed run whose worker came to its end, if it is not in the store."""
    node, out_of_memory = str(result.get("node_ip", "")), result.get("out_of_memory")
    if out_of_memory:
        return Loss("out-of-memory", out_of_memory, node)
    return Loss("storage-unseen", f"what {node} stored is not seen by the driver", node)


def _check_key(task: SeedTask, result: Mapping[str, Any]) -> None:
    """Refuses a worker that stores under other keys: all that it trains would be in vain."""
    told = result.get("key")
    if told and told != task.key:
        raise SclsearchError(
            f"{result.get('node_ip')}: driver and workers must name a seed run alike, "
            f"but it is {task.key[:12]} here and {told[:12]} there. Take the same code and "
            "versions on all machines."
        )
