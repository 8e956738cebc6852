"""Scheduler of a search: decides which seed runs to train next; independent of Ray."""

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

from sclsearch.canonical import counted, digest
from sclsearch.errors import RETRY, SclsearchError
from sclsearch.protocols.base import Splits
from sclsearch.ray_backend.failures import FINAL, WorkerFailure, WorkerFailures
from sclsearch.reports.report import Report, report
from sclsearch.search.callbacks import Callback, notify
from sclsearch.search.proposals import ObservedConfiguration, Proposals
from sclsearch.selection.race import Band, SeedRunId
from sclsearch.store.remote import UnavailableError
from sclsearch.store.runs import BATCH, Evaluation, Failure, RunStore, SeedRun
from sclsearch.store.storage import Storage
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    StudyStore,
    seed_run_identity,
    uneven_seeds,
)
from sclsearch.study.spec import Ending, RunOptions
from sclsearch.study.state import SearchState, SeedRunTask
from sclsearch.study.study import Study

_LOG = logging.getLogger(__name__)

LEARNS_NOTHING = ("random", "grid")
"""Samplers whose proposals do not depend on scores."""

UNINFORMED = 4
"""Configurations that are proposed before any score is known."""


def scores_needed(number: int) -> int:
    """Return how many of the first configurations must have scores before proposal `number`.

    It depends on nothing else, so a search proposes the same on any number of workers.
    """
    return 0 if number < UNINFORMED else math.ceil(2 * number / 3)


@dataclass(eq=False)
class Scheduler:
    """A study that is ready to run: decides which seed run to train next and collects the results.

    `dataclasses.replace` returns a new scheduler, which reads the results from the storage again.
    """

    study: Study
    record: StudyRecord
    storage: Storage
    options: RunOptions
    replicates: tuple[ReplicateRecord, ...]
    splits: Mapping[int, Splits]  # rows of each replicate, by replicate number
    configs: int  # configurations in total
    at_once: int  # seed runs that can run at the same time
    band: Band  # None trains all seeds of all configurations
    tests_all: bool = True  # False tests the winner's seed runs alone, at the end
    weights: bool = True  # whether the winner's best seed stores its weights, at the end
    advice: Sequence[str] = ()  # on this machine's resources, which do not affect results
    dry: bool = False  # True writes nothing; new configurations stay unsaved
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        self.store = StudyStore(self.storage, self.name)
        self.runs = RunStore(self.storage)
        rule = self.study.rule
        self.state = SearchState(self.record, self.replicates, rule, self.band, compact=True)
        self.training: dict[SeedRunId, SeedRunTask] = {}
        # Seed runs of the winner that train again, for a test score or weights.
        self.repeating: dict[SeedRunId, SeedRunTask] = {}
        # Neither stored nor running; those of paused configurations too.
        self.queue: dict[SeedRunId, SeedRunTask] = {}
        self.worker_failures = WorkerFailures()
        self.exhausted = False  # True if no further configuration is added
        self.outcomes: list[Failure | None] = []  # of each seed run that this search trained
        self.ending: Ending = "complete"
        self.tracking: str | None = None  # why MLflow does not show everything
        self._repeated: set[SeedRunId] = set()
        self._has_weights: dict[str, bool] = {}  # whether the store has those of a seed run, by key
        self._to_retry: set[SeedRunId] = set()
        study = self.study
        self._proposals = Proposals(study.space, study.sampler, study.search_seed)
        self._observed: list[ObservedConfiguration] = []
        self._scored = 0  # of these, from the first on
        # Seed runs of stored configurations that are read but not open, by configuration number.
        self._ahead: dict[int, tuple[list[SeedRunTask], list[SeedRun | None]]] = {}

    @cached_property
    def _stored(self) -> list[ConfigurationRecord]:
        return self.store.configurations()

    @cached_property
    def _stored_keys(self) -> frozenset[str]:
        return frozenset(self.runs.keys())

    def begin(self) -> "Scheduler":
        """Store the records of the study, its replicates and its race, unless they are stored.

        Returns:
            The study with its stored record, which another driver process may have created.
        """
        self.store.create(self.record)
        record = self.store.check(self.record)
        for replicate in self.replicates:
            self.store.add(replicate)
        self.store.save_start(self.band, self.configs, self.study.seeds)
        return replace(self, record=record)

    def stop_retries(self) -> None:
        """From now on raise UnavailableError at once if an object store does not respond."""
        self.store.folder = self.store.folder.without_retries()
        self.runs.folder = self.runs.folder.without_retries()

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on rows, seeds, space and data that readers of the results need, and the advice."""
        found = [*self.splits[0].notes, *uneven_seeds(self.replicates)]
        rows, classes = len(self.splits[0].train.index), len(self.study.data.task.labels)
        if rows < classes:
            found.append(
                f"training: {counted(rows, 'example')} of {classes} classes: some have none"
            )
        return (*found, *self.record.origin["notes"], *self.advice)

    @property
    def done(self) -> int:
        return len(self.state.seed_runs)

    @property
    def wanted(self) -> int:
        """Number of requested seed runs, without those that a race has skipped."""
        return self.done + self.remaining

    @property
    def trained(self) -> int:
        return len(self.outcomes)

    @property
    def reused(self) -> int:
        return self.done - self.trained

    @property
    def failed(self) -> int:
        return sum(run.failure is not None for run in self.state.seed_runs.values())

    @property
    def to_test(self) -> int:
        """Number of finished seed runs that still lack the test score that they must have."""
        return len(self.untested) if self.decided else 0

    def report(self) -> Report:
        study = self.study
        return report(self.storage, self.name, study.rule, study.seeds, self.configs)

    @property
    def running(self) -> dict[SeedRunId, SeedRunTask]:
        """Seed runs that are training now, for the first time or again."""
        return self.training | self.repeating

    @property
    def complete(self) -> bool:
        """True if nothing is left to train, except what has failed to train again."""
        return self.decided and not self.repeating and self._repeated.issuperset(self.to_repeat)

    @property
    def decided(self) -> bool:
        """True if every requested seed run is finished or not needed in a race."""
        return self._all_open and self.state.race.decided

    def stop_opening(self) -> None:
        self.exhausted = self.exhausted or bool(self.state.configurations)

    @property
    def skipped(self) -> int:
        """Number of seed runs that a race has skipped; 0 before it ends."""
        race = self.state.race
        return len(self.queue) if race.band is not None and self.decided else 0

    @property
    def skipped_failures(self) -> int:
        return len(self._to_retry & self.queue.keys()) if self.skipped else 0

    @property
    def remaining(self) -> int:
        """Number of seed runs that are still to finish; in a race an estimate."""
        unopened = 0 if self.exhausted else max(self.configs - len(self.state.configurations), 0)
        return self.state.race.needed(unopened)

    def refill(self) -> None:
        """Open every configuration that can run now, and read stored seed runs."""
        while self._may_open() and self._open():
            pass

    def next(self) -> SeedRunTask | None:
        """Return the next seed run to train, or None if there is none at present."""
        self.refill()
        run_id = self._next_id()
        if run_id is None:
            return self._next_repetition()
        only = self.configs * len(self.state.replicates) == 1
        task = replace(self.queue[run_id], weights=self.weights and only)
        if self.options.retry_failed:
            self.runs.forget_failure(task.key)
        del self.queue[run_id]
        self.training[run_id] = task
        return task

    def _next_id(self) -> SeedRunId | None:
        # A seed run whose worker failed comes last: the free node may be the one that failed.
        failures = self.worker_failures.count
        if self.state.race.band is None:
            if not self.worker_failures.seed_runs:  # the queue is in order
                return next(iter(self.queue), None)
            return min(self.queue, key=lambda run_id: (failures(run_id), run_id), default=None)
        failed = [run_id for run_id in self.worker_failures.seed_runs if run_id in self.queue]
        others = [*self.training, *failed]
        pick = partial(self.state.next_in_race, all_open=self._all_open)
        return pick(others) or pick(others, ahead=True) or pick(self.training)

    def _next_repetition(self) -> SeedRunTask | None:
        """Return the next seed run to train again, once the winner is decided."""
        if self.training or not self.decided:
            return None
        not_now = self.repeating.keys() | self._repeated
        run_id = next((one for one in self.to_repeat if one not in not_now), None)
        if run_id is None:
            return None
        number, replicate = run_id
        configuration = next(c for c in self.state.configurations if c.number == number)
        task = self._task(configuration, self.state.replicates[self.state.seeds[replicate]])
        weights = self.weights and run_id == self.state.best_seed
        self.repeating[run_id] = task = replace(task, test=True, weights=weights)
        return task

    @property
    def to_repeat(self) -> list[SeedRunId]:
        """Seed runs that train again: for a test score, or the winner's best for its weights."""
        best, untested = self.state.best_seed, self.untested
        if not self.weights or best is None or best in untested:
            return untested
        key = self.state.seed_runs[best].key
        if key not in self._has_weights:
            self._has_weights[key] = self.store.weights(key).exists()
        return untested if self._has_weights[key] else [*untested, best]

    @property
    def repeated(self) -> int:
        """Number of seed runs that train again at the end; an estimate before the winner's."""
        if self.decided:
            return len(self.to_repeat)
        seeds = len(self.state.replicates)
        if not self.tests_all:
            return seeds
        return int(self.weights and self.configs * seeds > 1)

    @property
    def untested(self) -> list[SeedRunId]:
        """Seed runs that lack a test score which this search has to have."""
        winner = self.state.winner
        return [
            run_id
            for run_id, run in self.state.seed_runs.items()
            if run.untested
            and (self.tests_all or (winner is not None and run_id[0] == winner.number))
        ]

    def evaluated(self, task: SeedRunTask, evaluation: Evaluation) -> None:
        """Pass an evaluation of a running seed run to the callbacks."""
        if task.id not in self.repeating:
            notify(self.callbacks, "on_evaluation", task, evaluation)

    def finish(
        self, task: SeedRunTask, run: SeedRun, *, stored: bool = False, node: str = ""
    ) -> None:
        """Record a finished seed run, and its node if this search trained it."""
        self.training.pop(task.id, None)
        if node:
            self.worker_failures.finished_on(node)
        self._has_weights.pop(task.key, None)
        if self.repeating.pop(task.id, None) is not None:
            self._repeated.add(task.id)
        if (known := self.state.seed_runs.get(task.id)) is not None:
            if known.untested and not run.untested:
                self.state.add_test(*task.id, run)
            return
        if not stored:
            self.outcomes.append(run.failure)
        score = self.state.add_seed_run(*task.id, run)
        notify(self.callbacks, "on_seed_run", task, run, stored=stored)
        if score is not None:
            notify(self.callbacks, "on_score", score)
        if not stored:
            self._check_failures()

    def read_running(self) -> None:
        """Record the running seed runs that workers have stored since Ray Tune stopped.

        If an object store does not respond, the next search reads them.
        """
        tasks = [task for task in self.running.values() if not task.weights]
        with suppress(UnavailableError):
            for task, run in zip(tasks, self.runs.get_all(t.key for t in tasks), strict=True):
                if run is not None and task.is_done(run):
                    self.finish(task, run)

    def _check_failures(self) -> None:
        """Raise SclsearchError if a configuration's worth of seed runs failed, all in one way.

        One seed run is not enough. Values of a later configuration may succeed, thus the same
        command continues.
        """
        failure, runs = self.outcomes[0], self.state.seed_runs.values()
        if (
            failure is None
            or failure.cause != "raised"
            or any(other != failure for other in self.outcomes)
            or self.trained < max(2, self.study.seeds)
            or any(run.failure is None for run in runs)
            or self.decided
        ):
            return
        raise SclsearchError(
            f"method {self.study.method.name}: the first {self.trained} seed runs failed with "
            f"the same error: {failure.message.rstrip('.')}. {RETRY} Without --retry-failed, the "
            "search continues with the missing seed runs."
        )

    def record_failure(self, task: SeedRunTask, failure: WorkerFailure) -> None:
        """Record a worker failure; retry the seed run, or count it as failed."""
        again = self.repeating.pop(task.id, None) is not None
        self.training.pop(task.id, None)
        retried = self.worker_failures.add(task.id, failure)
        if again:
            if not retried:
                _LOG.warning("seed run %s: cannot train again: %s", task.key[:12], failure.message)
                self._repeated.add(task.id)
            return
        if retried:
            self.queue[task.id] = task
            return
        configuration, replicate = task.id
        run = SeedRun(
            key=task.key,
            identity=task.identity,
            origin={**self.record.origin, "configuration": configuration, "replicate": replicate},
            failure=Failure(failure.cause, failure.message),
        )
        stored = None
        with suppress(UnavailableError):
            if failure.cause in FINAL:
                self.runs.put(run)
                self.store.delete_checkpoints(run.key)
            stored = self.runs.get(task.key)
        if stored is None:
            _LOG.warning(
                "seed run %s: counts as failed in this search alone; the same command trains it "
                "again: %s",
                task.key[:12],
                failure.message,
            )
        self.finish(task, stored or run)

    @property
    def _all_open(self) -> bool:
        return self.exhausted or len(self.state.configurations) >= self.configs

    def _may_open(self) -> bool:
        number = len(self.state.configurations)
        if self._all_open:
            return False
        if number < len(self._stored):
            return True
        if self.study.sampler in LEARNS_NOTHING:  # no more seeds are needed of those that are open
            if self.state.race.band is None:
                return not self.queue
            return self.state.next_in_race(self.training, all_open=False) is None
        return self.state.race.all_compared(scores_needed(number))

    def _open(self) -> bool:
        number = len(self.state.configurations)
        if number >= len(self._stored):
            proposal = self._proposals.next(self._observe())
            if proposal is None:
                self.exhausted = True
                return False
            configuration = self.study.configuration(number, *proposal)
            if not self.dry and not self.store.add(configuration):
                # Another driver added a configuration first; its proposal defines the seed runs.
                self._stored = self.store.configurations()
            else:
                self._stored.append(configuration)
        configuration = self._stored[number]
        tasks, stored = self._tasks_and_runs(number)
        self.state.add_configuration(configuration)
        self._observed.append(ObservedConfiguration(configuration.values))
        notify(self.callbacks, "on_configuration", configuration)
        for task, run in zip(tasks, stored, strict=True):
            if run is None or (self.options.retry_failed and run.failure is not None):
                self.queue[task.id] = task
                if run is not None:
                    self._to_retry.add(task.id)
            else:
                self.finish(task, run, stored=True)
        return True

    def _tasks_and_runs(self, number: int) -> tuple[list[SeedRunTask], list[SeedRun | None]]:
        """Return the seed runs of a stored configuration, and those that are stored.

        It reads the stored seed runs of many configurations at a time.
        """
        if number not in self._ahead:
            end = min(self.configs, number + max(1, BATCH // len(self.state.replicates)))
            some = self._stored[number:end]
            tasks = [[self._task(one, seed) for seed in self.state.replicates] for one in some]
            runs = iter(self._read([*chain.from_iterable(tasks)]))
            for place, own in enumerate(tasks, number):
                self._ahead[place] = own, [next(runs) for _ in own]
        return self._ahead.pop(number)

    def _read(self, tasks: Sequence[SeedRunTask]) -> list[SeedRun | None]:
        """Return the stored seed runs, None for a missing or damaged one."""
        keys = [task.key for task in tasks if task.key in self._stored_keys]
        found, damaged = self.runs.get_valid(keys)
        for key, fault in damaged.items():
            if not self.dry:
                try:
                    there = self.runs.set_aside(key)
                except FileNotFoundError:  # another search has moved it
                    continue
                _LOG.warning(
                    "%s It was moved to %s, and the seed run is trained again.", fault, there
                )
        stored = dict(zip(keys, found, strict=True))
        return [stored.get(task.key) for task in tasks]

    def _task(self, configuration: ConfigurationRecord, replicate: ReplicateRecord) -> SeedRunTask:
        identity = seed_run_identity(self.record, configuration, replicate)
        return SeedRunTask(configuration, replicate, identity, digest(identity), self.tests_all)

    def _observe(self) -> list[ObservedConfiguration]:
        """Return all configurations, with the scores that the next proposal uses."""
        start, end = self._scored, scores_needed(len(self.state.configurations))
        for one, score in zip(
            self._observed[start:end], self.state.first_scores(start), strict=False
        ):
            if math.isnan(score):
                break
            one.score = score
            self._scored += 1
        return self._observed
