"""Ray Tune around the scheduler: a searcher, a scheduler that names failures, a watchdog.

A new Tuner is made at every start and Ray's own snapshots are never read: the run store is the
truth, and the scheduler has read it.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.leftovers import scratch_folder
from sclsearch.ray_backend.retries import WorkerFailure
from sclsearch.ray_backend.signals import END_SIGNAL
from sclsearch.ray_backend.startup import send_own_code
from sclsearch.ray_backend.worker import WorkerContext, seed_run_trial
from sclsearch.ray_backend.worker_failures import (
    failure_cause,
    line_of,
    node_address,
    patch_out_of_memory,
    ray_message,
)
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.seed_runs import SeedRunId, SeedRunTask
from sclsearch.study.spec import Ending, RunOptions

Tick = Callable[[Sequence[float], Sequence[float]], None]
"""Receives the seconds of each finished trial, and the seconds since the start of each running one.

A finished trial took longer than its seed run, which excludes the start of the worker.
"""


class SeedRunQueue(Protocol):
    """The interface to the search: it chooses the next seed run and receives results."""

    runs: RunStore

    @property
    def running(self) -> Mapping[SeedRunId, SeedRunTask]:
        """Seed runs that are being trained."""

    @property
    def complete(self) -> bool:
        """Whether no seed run is left to train."""

    def next(self) -> SeedRunTask | None:
        """Return the next seed run to train; None if there is none at present."""

    def finish(
        self, task: SeedRunTask, run: SeedRun, *, stored: bool = False, node: str = ""
    ) -> None:
        """Receive a finished seed run and the node that trained it."""

    def release(self, task: SeedRunTask) -> None:
        """Receive a seed run that was not started."""

    def record_failure(self, task: SeedRunTask, failure: WorkerFailure) -> None:
        """Receive a seed run that its worker did not finish."""

    def settle(self) -> None:
        """Update the race after the last result."""


class SeedSearcher(Searcher):
    """Hands the scheduler's seed runs to Ray Tune, one trial each.

    Args:
        scheduler: The scheduler.
        deadline: When no seed run starts any more, Unix seconds; infinite for never.
    """

    def __init__(self, scheduler: SeedRunQueue, deadline: float) -> None:
        super().__init__(metric="key", mode="max")
        self.scheduler, self.deadline = scheduler, deadline
        self.tasks: dict[str, SeedRunTask] = {}
        self.causes: dict[str, WorkerFailure] = {}
        self.fault: Exception | None = None

    def suggest(self, trial_id: str) -> Any:
        """Returns a trial's config, None to wait, FINISHED at the end."""
        task = None
        with self.keeping_fault():
            task = None if self.late else self.scheduler.next()
        if task is None:
            return None if self.scheduler.running else Searcher.FINISHED
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
        loss = self.causes.pop(trial_id, WorkerFailure("worker-lost", "no reason given"))
        if not error and result is not None:
            loss = _told_by_worker(result)
        with self.keeping_fault():
            task = self.tasks.pop(trial_id)
            _check_key(task, result or {})
            run = self.scheduler.runs.get(task.key)
            if run is not None:
                self.scheduler.finish(task, run, node=loss.node)
            elif result and result.get("late"):
                self.scheduler.release(task)
            else:
                self.scheduler.record_failure(task, loss)

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
        told = ray_message(trial)
        cause = "hang" if trial.trial_id in self.hung else failure_cause(told)
        self.searcher.causes[trial.trial_id] = WorkerFailure(
            cause, line_of(told)[:300], node_address(told)
        )

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

    def __init__(self, searcher: SeedSearcher, timeout: float | None, tick: Tick) -> None:
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
            self.tick(self.took, [age for _, age in running])
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
    scheduler: SeedRunQueue,
    context: WorkerContext,
    options: RunOptions,
    *,
    gpus: float,
    concurrency: int,
    tick: Tick,
    reuse_actors: bool = True,
) -> Ending:
    """Trains what the scheduler still wants; returns why it ended.

    Ctrl-C and `END_SIGNAL` end it in order: running seed runs are given up, nothing finished is
    lost. `gpus` and `concurrency` are what comes of `how` on this cluster.

    Raises:
        SclsearchError: The storage was away, a machine is unfit, or another driver took the study.
    """
    patch_out_of_memory()
    deadline = math.inf if options.time_budget is None else time.time() + options.time_budget
    searcher = SeedSearcher(scheduler, deadline)
    watchdog = Watchdog(searcher, options.trial_timeout, tick)
    with scratch_folder() as scratch:
        send_own_code(context.study.method)
        tune.Tuner(
            tune.with_resources(
                tune.with_parameters(seed_run_trial, context=context),
                {"cpu": options.cpus_per_trial, "gpu": gpus},
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
    scheduler.settle()
    if scheduler.complete:
        return "complete"
    return "out of time" if searcher.late else "interrupted"


def _told_by_worker(result: dict[str, Any]) -> WorkerFailure:
    """Returns what became of a seed run whose worker came to its end, if it is not in the store."""
    node, out_of_memory = str(result.get("node_ip", "")), result.get("out_of_memory")
    if out_of_memory:
        return WorkerFailure("out-of-memory", out_of_memory, node)
    return WorkerFailure("storage-unseen", f"what {node} stored is not seen by the driver", node)


def _check_key(task: SeedRunTask, result: Mapping[str, Any]) -> None:
    """Refuses a worker that stores under other keys: all that it trains would be in vain."""
    told = result.get("key")
    if told and told != task.key:
        raise SclsearchError(
            f"{result.get('node_ip')}: driver and workers must name a seed run alike, "
            f"but it is {task.key[:12]} here and {told[:12]} there. Take the same code and "
            "versions on all machines."
        )
