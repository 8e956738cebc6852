"""The state of a running search: what is finished, what runs, what comes next. No Ray here."""

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
    """Return how many configurations must be unfinished to keep so many seed runs in flight.

    Args:
        at_once: Seed runs at a time.
        seeds: Seeds per configuration.
        race: Whether configurations may get fewer; a race has most to gain where many have a few.
    """
    needed = min(seeds, LEAST) if race else seeds
    return max(2, math.ceil(at_once / needed) + 1)


class Scheduler:
    """The seed runs of a study.

    Args:
        study: The study.
        record: Its record.
        store: Where configurations are kept.
        runs: Where seed runs are kept.
        replicates: Records of the replicates to run.
        configs: Configurations to run in total.
        dry: Whether nothing is written: configurations stay unsaved.
        retry_failed: Whether failed seed runs are trained again.
        race: Probability, at the most, that another configuration would win with all seeds of all;
            None trains them all.
        listeners: Who is told.
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
        """Let enough configurations be unfinished for so many seed runs at a time.

        The number from which on this holds is stored, so that every proposal can be repeated.
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
        """Whether every seed run that was asked for is finished or, in a race, not needed."""
        wanted = len(self.configurations) if self.exhausted else self.configs
        return all(map(self._settled, range(wanted))) and self.race.certain

    @property
    def skipped(self) -> int:
        """How many seed runs the race does not need by what is known now."""
        return sum(number in self.race.waiting for number, _ in self.waiting)

    def refill(self) -> None:
        """Opens every configuration whose proposal may be known by now, and reads the store."""
        while self._may_open() and self._open():
            pass
        self.settle()

    def settle(self) -> None:
        """Lets the race look at what is new, and at everything once all others have ended."""
        self.race.judge()
        opened = self.exhausted or len(self.configurations) == self.configs
        if opened and not self.running and not self.ready():
            self.race.certify()

    def ready(self) -> list[SeedRunId]:
        """Returns the places of the seed runs that may be trained now."""
        return [place for place in self.waiting if place[0] not in self.race.waiting]

    def next(self) -> SeedRunTask | None:
        """Returns a seed run to be trained, or None if there is none at present."""
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
        """Takes in a finished seed run, of a node if it was trained just now."""
        self.running.pop(task.id, None)
        if node:
            self.losses.finished_on(node)
        if task.id in self.done:
            return
        # Predictions of thousands of seed runs would fill the memory, and nothing here reads them.
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
        """Takes in a seed run that was not begun."""
        del self.running[task.id]
        self.waiting[task.id] = task

    def record_failure(self, task: SeedRunTask, loss: WorkerFailure) -> None:
        """Takes in a seed run that was not finished: it is tried again or fails for good.

        Raises:
            SclsearchError: It has no try left, and not it but a machine is at fault.
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
        """Returns a configuration's score, None while seed runs are missing."""
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
        # One that was lost goes behind the others: what is free may be the node that lost it.
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
                # Another driver was faster; what it proposed is what seed runs will be found of.
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
        """Return the configurations whose scores the proposal of another depends on.

        What one proposal knows all later ones know, also where the window has grown since.
        """
        ends = [begin - 1 for begin, _ in self._windows[1:]] + [number]
        spans = zip(self._windows, ends, strict=True)
        known = (min(number, end) - open_ + 1 for (begin, open_), end in spans if begin <= number)
        return range(max(known))

    def _tasks(self, configuration: ConfigurationRecord) -> Iterator[SeedRunTask]:
        for replicate in self.replicates:
            identity = seed_run_identity(self.record, configuration, replicate)
            yield SeedRunTask(configuration, replicate, identity, digest(identity))
