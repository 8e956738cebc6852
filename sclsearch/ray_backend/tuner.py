"""Ray Tune adapter: a searcher, a Tune scheduler that records failure causes, and a watchdog.

Every run creates a new Tuner and never reads Ray's snapshots: a worker stores its result before it
reports it, and a resumed search reads the run store.
"""

import logging
import math
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.air._internal import usage
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import ActorUnavailableError, OutOfMemoryError, RayActorError, RayTaskError
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from sclsearch.canonical import canonical
from sclsearch.errors import first_line
from sclsearch.ray_backend.failures import WorkerFailure
from sclsearch.ray_backend.signals import END_SIGNAL, announce_ctrl_c
from sclsearch.ray_backend.start import ACCELERATOR, check_alive, send_own_code, training_nodes
from sclsearch.ray_backend.worker import (
    BrokenStorageError,
    UnfitNodeError,
    WorkerContext,
    return_freed_memory,
    save_context,
    seed_run_trial,
)
from sclsearch.store import remote
from sclsearch.store.remote import StorageError, UnavailableError
from sclsearch.study.spec import Ending
from sclsearch.study.state import Running
from sclsearch.training.device import is_out_of_memory

if TYPE_CHECKING:
    from sclsearch.search.scheduler import Scheduler
    from sclsearch.study.state import SeedRunTask

LOST_NODE = ("node has died", "node was terminated", "node it was running on is dead")
"""Ray has no exception type for an actor whose machine is lost."""


def classified(error: Exception) -> WorkerFailure:
    """Return the failure for an exception of Ray: its cause, one line and the machine."""
    node = re.search(r"\bip[:=]\s*([\w.:]+)", str(error))
    origin = error.cause if isinstance(error, RayTaskError) else error
    message = first_line(origin)
    if origin is not error and not isinstance(origin, UnfitNodeError | StorageError):
        message = f"{type(origin).__name__}: {message}"
    return WorkerFailure(_cause(error, origin), message[:300], node[1] if node else "")


def _cause(error: Exception, origin: Exception) -> str:
    """Return one of `RETRIES` for an exception of Ray and the exception that caused it."""
    if is_out_of_memory(origin):
        return "out-of-memory"
    if isinstance(origin, UnfitNodeError):
        return "node-unfit"
    if isinstance(origin, BrokenStorageError):
        return "storage-broken"
    if isinstance(origin, StorageError):
        return "storage-lost"
    # CUDA adds advice on device-side assertions to each of its errors.
    if "device-side assert triggered" in str(origin):
        return "gpu-assert"
    if isinstance(error, ActorUnavailableError):
        return "worker-silent"
    return "node-lost" if any(sign in str(error) for sign in LOST_NODE) else "worker-lost"


@cache
def patch_tune() -> None:
    """Make Tune treat a worker that Ray's memory monitor killed as a failed trial, and save none.

    Ray 2.60 handles only actor and task errors. Any other error ends the whole run while a trial
    runs, and leaves no cause while a worker starts. Nothing reads the states that it saves. Errors
    stay in memory: on a cluster, other users can write to Tune's folder.
    """
    Trial.handle_error = _keep_error
    TuneController._mark_trial_to_checkpoint = lambda *_: None
    usage.tag_callbacks = lambda _: False  # for telemetry it would import MLflow
    for name in ("_actor_start_failed", "_actor_task_failed"):
        setattr(RayActorManager, name, _patched(getattr(RayActorManager, name)))


def _keep_error(trial: Trial, error: Exception | None = None) -> None:
    trial.run_metadata.num_failures += 1
    trial.failure = classified(error) if error else WorkerFailure("worker-lost", "no reason given")


def _patched(handle: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Any, *, exception: Exception, **tracked: Any) -> None:
        if isinstance(exception, OutOfMemoryError):
            exception = RayActorError(error_msg=str(exception))
        handle(self, exception=exception, **tracked)

    return patched


_LOG = logging.getLogger(__name__)
_CALM_SECONDS = 60.0
"""Seconds without a failed call after which another failed call begins another outage."""
_TICK_SECONDS = 0.2
"""Seconds between two looks at the clock and at all running trials."""
_TRIM_SECONDS = 10.0
"""Seconds between two returns of freed memory to the system, and two looks at Ray's nodes."""
_ENDED_TRIALS = 500
"""Ended trials that Tune keeps."""

Tick = Callable[[Sequence[float], Sequence[Running]], None]
"""Progress function: receives the seconds of each finished trial, and the running ones.

A finished trial took longer than its seed run, which excludes the start of the worker.
"""


class Outage:
    """Outage of an object store during a search: when to try again, and when to give up."""

    def __init__(self) -> None:
        self.begun = self.next_try = -math.inf
        self.pause = 0.0

    @property
    def waits(self) -> bool:
        return time.monotonic() < self.next_try

    @contextmanager
    def survived(self) -> Iterator[None]:
        """Catch UnavailableError of the body, for as long as other store calls retry."""
        try:
            yield
        except UnavailableError:
            now = time.monotonic()
            if now - self.next_try > _CALM_SECONDS:
                self.begun, self.pause = now, remote.FIRST_WAIT_SECONDS
            if now - self.begun > remote.PATIENCE_SECONDS:
                raise
            self.next_try = now + self.pause
            self.pause = min(2 * self.pause, remote.LONGEST_WAIT_SECONDS)


class _Stateless:
    """Base of what Ray would write to disk with a Tuner; nothing reads it."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class SeedSearcher(_Stateless, Searcher):
    """Ray Tune searcher that passes the scheduler's seed runs to Tune, one trial each."""

    def __init__(self, scheduler: "Scheduler", gpus: float = 0.0) -> None:
        super().__init__(metric="key", mode="max")
        self.scheduler, self.options, self.gpus = scheduler, scheduler.options, gpus
        budget = self.options.time_budget
        self.deadline = math.inf if budget is None else time.monotonic() + budget
        self.tasks: dict[str, SeedRunTask] = {}
        self.causes: dict[str, WorkerFailure] = {}
        self.fault: Exception | None = None
        self.outage = Outage()

    def suggest(self, trial_id: str) -> Any:
        """Return a trial's config, None to wait, or FINISHED at the end."""
        task = None
        with self.keeping_fault():
            if not self.late and not self.outage.waits:
                task = self.scheduler.next()
        if task is None:
            return None if self.scheduler.running or self.outage.waits else Searcher.FINISHED
        self.tasks[trial_id] = task
        return {
            "configuration": task.configuration.number,
            "replicate": task.replicate.number,
            "fields": canonical(task.configuration.fields),
            "test": task.test,
            "weights": task.weights,
            # Near the limit of the GPU's memory, an update fits that a graph does not.
            "graphs": not self.scheduler.worker_failures.count(task.id),
            "timed": self.options.trial_timeout is not None,
        }

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        failure = self.causes.pop(trial_id, WorkerFailure("worker-lost", "no reason given"))
        result = {} if error or result is None else result
        node = str(result.get("node_ip", ""))
        if "failure" in result:
            cause, message = result["failure"]
            failure = WorkerFailure(cause, message, node)
        with self.keeping_fault():
            task = self.tasks.pop(trial_id)
            if result.get("warning"):
                _LOG.warning("%s", result["warning"])
            if "run" in result:
                self.scheduler.finish(task, result["run"], node=node)
                return
            self.scheduler.record_failure(task, failure)
            if failure.cause == "node-unfit":
                needs = self.options.cpus_per_trial, self.gpus, self.options.accelerator
                self.scheduler.worker_failures.check_nodes(training_nodes(*needs))

    @contextmanager
    def keeping_fault(self) -> Iterator[None]:
        """Store an exception of the body until the end, because Tune would hide it.

        If an object store does not respond, Tune goes on, and a later call of the body tries again.
        """
        try:
            with self.outage.survived():
                yield
        except Exception as error:
            self.fault = self.fault or error

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: only the run store holds results."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: a new searcher reads the run store."""


class SeedScheduler(_Stateless, FIFOScheduler):
    """Tune scheduler that passes a trial's failure cause to the searcher before the trial ends."""

    def __init__(self, searcher: SeedSearcher, hung: set[str]) -> None:
        super().__init__()
        self.searcher, self.hung = searcher, hung

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Choose none, so that Tune starts pending trials in order; forget ended trials.

        At each event Tune reads all trials that it keeps, 20 KB each.
        """
        controller = tune_controller._tune_controller
        ended = controller._stopped_trials
        if len(ended) > _ENDED_TRIALS:
            controller._trials[:] = [one for one in controller._trials if one not in ended]
            ended.clear()

    def on_trial_error(self, _controller: Any, trial: Trial) -> None:
        failure: WorkerFailure = trial.failure
        if trial.trial_id in self.hung:
            failure = replace(failure, cause="hang")
        self.searcher.causes[trial.trial_id] = failure


class Watchdog(_Stateless, TrialProgressCallback):
    """Tune callback that kills hung trials and updates the progress line.

    It takes the place of Tune's own progress callback, which would keep all trials. An exception of
    `tick` ends the search. `stopping` is called at the first Ctrl-C, which Tune takes some seconds
    to obey.
    """

    def __init__(self, searcher: SeedSearcher, tick: Tick, stopping: Callable[[], object]) -> None:
        self.searcher, self.tick, self.stopping = searcher, tick, stopping
        self.begun = False
        timeout = searcher.options.trial_timeout
        self.timeout = math.inf if timeout is None else timeout
        self.running: dict[str, tuple[Trial, float]] = {}
        self.shares: dict[str, list[tuple[float, float]]] = {}  # first and last one, with its time
        self.training: dict[str, float] = {}  # start of training by trial, if there is a timeout
        self.took: list[float] = []
        self.hung: set[str] = set()
        self.ticked, self.trimmed = -math.inf, time.monotonic()

    def on_step_begin(self, **_: Any) -> None:
        """Announce a Ctrl-C; Tune has set its signal handlers before the first step."""
        if not self.begun:
            self.begun = True
            announce_ctrl_c(self.stopping)

    def on_trial_start(self, *, trial: Trial, **_: Any) -> None:
        self.running[trial.trial_id] = trial, time.monotonic()

    def on_trial_complete(self, *, trial: Trial, **_: Any) -> None:
        if trial.trial_id in self.running:
            _, begun = self.running.pop(trial.trial_id)
            self.took.append(time.monotonic() - begun)
        self._forget(trial)

    def on_trial_result(self, *, trial: Trial, result: dict[str, Any], **_: Any) -> None:
        now = time.monotonic()
        self.training.setdefault(trial.trial_id, now)
        if "share" in result:
            first = self.shares.get(trial.trial_id, [])[:1]
            self.shares[trial.trial_id] = [*first, (now, result["share"])]
        if "evaluation" in result:
            with self.searcher.keeping_fault():
                task = self.searcher.tasks[trial.trial_id]
                self.searcher.scheduler.evaluated(task, result["evaluation"])

    def on_trial_error(self, *, trial: Trial, **_: Any) -> None:
        self.running.pop(trial.trial_id, None)
        self._forget(trial)

    def _forget(self, trial: Trial) -> None:
        self.training.pop(trial.trial_id, None)
        self.shares.pop(trial.trial_id, None)

    def _progress(self, trial: Trial, age: float) -> Running:
        shares = self.shares.get(trial.trial_id)
        if not shares:
            return Running(age)
        (begun, first), (now, last) = shares[0], shares[-1]
        return Running(age, last, (now - begun) / (last - first) if last > first else None)

    def on_step_end(self, **_: Any) -> None:
        """Kill hung trials; only the end of the process stops a call that holds the GIL."""
        now = time.monotonic()
        if now - self.ticked < _TICK_SECONDS:
            return
        self.ticked = now
        if now - self.trimmed > _TRIM_SECONDS:
            self.trimmed = now
            return_freed_memory()
            with self.searcher.keeping_fault():
                check_alive()
        trials = [trial for trial, _ in self.running.values()]
        starts = [start for _, start in self.running.values()]
        with self.searcher.keeping_fault():
            if not self.searcher.outage.waits:
                running = [self._progress(one, now - start) for one, start in self.running.values()]
                self.tick(self.took, running)
        # A trial may wait for a node that never comes, or start when the time is over.
        in_time = any(start <= self.searcher.deadline for start in starts)
        if (self.searcher.late and not in_time) or self.searcher.fault is not None:
            signal.raise_signal(END_SIGNAL)
        for trial in trials:
            begun = self.training.get(trial.trial_id, now)
            if now - begun > self.timeout and trial.trial_id not in self.hung:
                self.hung.add(trial.trial_id)
                ray.kill(trial.temporary_state.ray_actor)


def fit(
    scheduler: "Scheduler",
    context: WorkerContext,
    *,
    scratch: Path,
    gpus: float,
    concurrency: int,
    tick: Tick,
    stopping: Callable[[], object],
) -> Ending:
    """Train the scheduler's remaining seed runs; return how the run ended.

    Ctrl-C and `END_SIGNAL` end it in order: it abandons running seed runs and loses no finished
    one. `scratch` is the folder of `started_ray`; `gpus` and `concurrency` are the options of
    the search resolved for this cluster.
    """
    patch_tune()
    scheduler.stop_retries()  # they would hold up all workers and Ctrl-C
    options, searcher = scheduler.options, SeedSearcher(scheduler, gpus)
    watchdog = Watchdog(searcher, tick, stopping)
    send_own_code(context.study.method)
    if options.address is None:
        trainable = partial(seed_run_trial, context=save_context(context, scratch))
    else:
        trainable = tune.with_parameters(seed_run_trial, context=context)
    # A node has one unit of its type of accelerator: the share of a seed run only selects nodes.
    kind = {f"{ACCELERATOR}{options.accelerator}": 0.0001} if options.accelerator else {}
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": options.cpus_per_trial, "gpu": gpus, **kind}),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=SeedScheduler(searcher, watchdog.hung),
            num_samples=-1,
            max_concurrent_trials=concurrency,  # without it Ray asks for one node at a time
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            storage_path=str(scratch),
            verbose=0,
            callbacks=[watchdog],
            failure_config=tune.FailureConfig(max_failures=0),
        ),
    )
    tuner.fit()
    if searcher.fault is not None:
        raise searcher.fault
    if scheduler.complete:
        return "complete"
    return "out of time" if searcher.late else "interrupted"
