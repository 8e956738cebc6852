"""State of a running search: its finished, running and next seed runs; independent of Ray."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sclsearch.canonical import digest
from sclsearch.ray_backend.retries import WorkerFailure, WorkerFailures
from sclsearch.search.callbacks import Callback
from sclsearch.search.proposals import ObservedConfiguration, propose
from sclsearch.search.scores import configuration_score
from sclsearch.selection.race import LEAST, Race
from sclsearch.store.records import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    seed_run_identity,
)
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.seed_runs import SeedRunId, SeedRunTask
from sclsearch.study.study import Study
from sclsearch.tasks.metrics import MAXIMUM, METRICS

_LOG = logging.getLogger(__name__)


def open_configurations_for(at_once: int, seeds: int, race: bool) -> int:
    """Return the number of unfinished configurations that keeps `at_once` seed runs in flight.

    Args:
        at_once: Number of seed runs at a time.
        seeds: Seeds per configuration.
        race: Whether a race may skip seeds. A race gains most from many configurations with a few
            seeds each.
    """
    needed = min(seeds, LEAST) if race else seeds
    return max(2, math.ceil(at_once / needed) + 1)


class Scheduler:
    """Scheduler of a study's seed runs: decides which to train next and collects the results.

    Args:
        study: The study.
        record: The study's record.
        store: The store of configurations.
        runs: The store of seed runs.
        replicates: Records of the replicates to run.
        configs: Number of configurations to run in total.
        dry: If True, write nothing; new configurations stay unsaved.
        retry_failed: Whether failed seed runs are trained again.
        race: Highest accepted probability that another configuration would win with all seeds. None
            trains all seeds of all configurations.
        listeners: The callbacks for search events.
    """

    def __init__(
        self,
        study: Study,
        record: StudyRecord,
        store: StudyStore,
        runs: RunStore,
        replicates: Sequence[ReplicateRecord],
        configs: int,
        *,
        dry: bool = False,
        retry_failed: bool = False,
        race: float | None = None,
        listeners: Sequence[Callback] = (),
    ) -> None:
        self.study, self.record, self.store, self.runs = study, record, store, runs
        self.replicates, self.configs = replicates, configs
        self.dry, self.retry_failed, self.listeners = dry, retry_failed, listeners
        self.configurations: list[ConfigurationRecord] = []
        self.done: dict[SeedRunId, SeedRun] = {}
        self.running: dict[SeedRunId, SeedRunTask] = {}
        self.waiting: dict[SeedRunId, SeedRunTask] = {}
        self.scores: dict[int, float] = {}
        self.losses = WorkerFailures()
        low = METRICS[study.metric].minimum
        self.race = Race(study.rule.score, low, MAXIMUM, len(replicates), configs, race)
        self._seeds = {replicate.number: seed for seed, replicate in enumerate(replicates)}
        self.exhausted = False
        self._stored = store.configurations()
        self._windows = store.windows(record)

    @classmethod
    def of(cls, prepared: PreparedStudy, **options: Any) -> "Scheduler":
        """Return the scheduler of a prepared study; the options are those of the constructor."""
        return cls(
            prepared.study,
            prepared.record,
            prepared.store,
            prepared.runs,
            prepared.replicates,
            prepared.configs,
            **options,
        )

    def widen(self, at_once: int) -> None:
        """Raise the number of unfinished configurations to keep `at_once` seed runs in flight.

        The store records the configuration number from which this holds, so that every proposal is
        reproducible.
        """
        race = self.race.risk is not None
        open_configurations = open_configurations_for(at_once, len(self.replicates), race)
        if open_configurations <= self._windows[-1][1]:
            return
        number = max(len(self.configurations), len(self._stored))
        self._windows.append((number, open_configurations))
        self.store.widen(self._windows)

    @property
    def complete(self) -> bool:
        """True if every requested seed run is finished or, in a race, not needed."""
        wanted = len(self.configurations) if self.exhausted else self.configs
        return all(map(self._settled, range(wanted))) and self.race.certain

    @property
    def skipped(self) -> int:
        """Number of seed runs that the race does not need, given the results so far."""
        return sum(number in self.race.waiting for number, _ in self.waiting)

    def refill(self) -> None:
        """Open every configuration whose required scores are known, and read stored seed runs."""
        while self._may_open() and self._open():
            pass
        self.settle()

    def settle(self) -> None:
        """Update the race with the new results.

        Once nothing else runs, the race reviews every paused configuration.
        """
        self.race.judge()
        opened = self.exhausted or len(self.configurations) == self.configs
        if opened and not self.running and not self.ready():
            self.race.certify()

    def ready(self) -> list[SeedRunId]:
        """Return the ids of the seed runs that may start now."""
        return [place for place in self.waiting if place[0] not in self.race.waiting]

    def next(self) -> SeedRunTask | None:
        """Return the next seed run to train, or None if there is none at present."""
        self.refill()
        ready = self.ready()
        if not ready:
            return None
        place = min(ready, key=self._order)
        self.running[place] = task = self.waiting.pop(place)
        if self.retry_failed:
            self.runs.forget_failure(task.key)
        return task

    def finish(
        self, task: SeedRunTask, run: SeedRun, *, stored: bool = False, node: str = ""
    ) -> None:
        """Record a finished seed run, and its node if this search trained it."""
        self.running.pop(task.id, None)
        if node:
            self.losses.finished_on(node)
        if task.id in self.done:
            return
        # Predictions of thousands of seed runs would fill the memory, and the scheduler never reads
        # them.
        self.done[task.id] = run = replace(run, predictions={})
        for listener in self.listeners:
            listener.finished(task, run, stored=stored)
        number = task.configuration.number
        figure = run.validated(self.study.metric)
        self.race.note(number, self._seeds[task.replicate.number], figure)
        places = [(number, replicate.number) for replicate in self.replicates]
        runs = [self.done[place] for place in places if place in self.done]
        if len(runs) == len(places):
            figures = configuration_score(number, runs, self.study.rule, self.study.metric)
            self.scores[number] = figures.score
            for listener in self.listeners:
                listener.scored(figures)

    def release(self, task: SeedRunTask) -> None:
        """Return a seed run that did not start to the queue."""
        del self.running[task.id]
        self.waiting[task.id] = task

    def record_failure(self, task: SeedRunTask, loss: WorkerFailure) -> None:
        """Record a worker failure; retry the seed run or store it as failed.

        Raises:
            SclsearchError: The seed run has no retry left, and the storage or a machine is at
                fault.
        """
        self.running.pop(task.id, None)
        if self.losses.add(task.id, loss):
            self.waiting[task.id] = task
            return
        configuration, replicate = task.id
        run = SeedRun(
            key=task.key,
            identity=task.identity,
            origin={
                **self.record.origin,
                "configuration": configuration,
                "replicate": replicate,
            },
            failure=Failure(loss.cause, loss.message),
        )
        self.runs.put(run)
        self.finish(task, self.runs.get(task.key) or run)

    def score(self, number: int) -> float | None:
        """Return a configuration's score, or None while seed runs are missing."""
        return self.scores.get(number)

    def _may_open(self) -> bool:
        number = len(self.configurations)
        if self.exhausted or number >= self.configs:
            return False
        if number < len(self._stored):
            return True
        self.race.judge()
        return all(map(self._settled, self._told(number)))

    def _settled(self, number: int) -> bool:
        return number in self.scores or number in self.race.waiting

    def _order(self, place: SeedRunId) -> tuple[Any, ...]:
        # A seed run whose worker failed comes last: the free node may be the one that failed.
        number, replicate = place
        return self.losses.count(place), self.race.order(number, self._seeds[replicate]), place

    def _open(self) -> bool:
        number = len(self.configurations)
        if number < len(self._stored):
            configuration = self._stored[number]
        else:
            proposal = propose(
                self.study.space, self.study.sampler, self.study.search_seed, self._known()
            )
            if proposal is None:
                self.exhausted = True
                return False
            configuration = self.study.configuration(number, *proposal)
            if not self.dry and not self.store.add(configuration):
                # Another driver added a configuration first; its proposal defines the seed runs.
                self._stored = self.store.configurations()
                configuration = self._stored[number]
        self.configurations.append(configuration)
        self.race.open()
        for listener in self.listeners:
            listener.opened(configuration)
        self._read(configuration)
        return True

    def _read(self, configuration: ConfigurationRecord) -> None:
        tasks = list(self._tasks(configuration))
        stored, damaged = self.runs.get_valid(task.key for task in tasks)
        for key, fault in damaged.items():
            if not self.dry:
                there = self.runs.set_aside(key)
                _LOG.warning(
                    "%s It was moved to %s, and the seed run is trained again.", fault, there
                )
        for task, run in zip(tasks, stored, strict=True):
            if run is None or (self.retry_failed and run.failure is not None):
                self.waiting[task.id] = task
            else:
                self.finish(task, run, stored=True)

    def _known(self) -> list[ObservedConfiguration]:
        told = self._told(len(self.configurations))
        return [
            ObservedConfiguration(
                earlier.values, self._worth(earlier.number) if earlier.number in told else None
            )
            for earlier in self.configurations
        ]

    def _worth(self, number: int) -> float | None:
        waits = self.race.waiting.get(number)
        return self.score(number) if waits is None else waits.expected

    def _told(self, number: int) -> range:
        """Return the numbers of the configurations whose scores a proposal uses.

        Later proposals use every score that an earlier one used, even after `widen`.
        """
        ends = [begin - 1 for begin, _ in self._windows[1:]] + [number]
        spans = zip(self._windows, ends, strict=True)
        known = (min(number, end) - open_ + 1 for (begin, open_), end in spans if begin <= number)
        return range(max(known))

    def _tasks(self, configuration: ConfigurationRecord) -> Iterator[SeedRunTask]:
        for replicate in self.replicates:
            identity = seed_run_identity(self.record, configuration, replicate)
            yield SeedRunTask(configuration, replicate, identity, digest(identity))
