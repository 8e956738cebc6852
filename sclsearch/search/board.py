"""The state of a running search: what is finished, what runs, what comes next. No Ray here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sclsearch.canonical import digest
from sclsearch.search.figures import Figures, figures_of
from sclsearch.search.proposals import Known, propose
from sclsearch.search.retries import Loss, Losses
from sclsearch.search.study import Study
from sclsearch.store.records import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    seed_run_identity,
)
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.tasks.metrics import value


@dataclass(frozen=True, slots=True)
class SeedTask:
    """A seed run to be trained.

    Attributes:
        configuration: Its configuration.
        replicate: Its replicate.
        identity: Everything that determines its figures.
        key: Its name in the run store.
    """

    configuration: ConfigurationRecord
    replicate: ReplicateRecord
    identity: Mapping[str, Any]
    key: str

    @property
    def place(self) -> tuple[int, int]:
        """Numbers of configuration and replicate."""
        return self.configuration.number, self.replicate.number


class Listener(Protocol):
    """Who is told of what happens."""

    def opened(self, configuration: ConfigurationRecord) -> None:
        """A configuration has been opened."""

    def finished(self, task: SeedTask, run: SeedRun, *, stored: bool) -> None:
        """A seed run is finished; `stored` if it was so before this driver started."""

    def scored(self, figures: Figures) -> None:
        """All seed runs of a configuration are finished."""


class Board:
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
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.study, self.record, self.store, self.runs = study, record, store, runs
        self.replicates, self.configs = replicates, configs
        self.dry, self.retry_failed, self.listeners = dry, retry_failed, listeners
        self.configurations: list[ConfigurationRecord] = []
        self.done: dict[tuple[int, int], SeedRun] = {}
        self.running: dict[tuple[int, int], SeedTask] = {}
        self.waiting: dict[tuple[int, int], SeedTask] = {}
        self.scores: dict[int, float] = {}
        self.losses = Losses()
        self.exhausted = False
        self._stored = store.configurations()

    @property
    def complete(self) -> bool:
        """Whether every seed run that was asked for is finished."""
        wanted = len(self.configurations) if self.exhausted else self.configs
        return len(self.done) == wanted * len(self.replicates)

    def open_up(self) -> None:
        """Opens every configuration whose proposal may be known by now, and reads the store."""
        while self._may_open() and self._open():
            pass

    def next(self) -> SeedTask | None:
        """Returns a seed run to be trained, or None if there is none at present."""
        self.open_up()
        if not self.waiting:
            return None
        # One that was lost goes behind the others: what is free may be the node that lost it.
        task = self.waiting.pop(min(self.waiting, key=lambda at: (self.losses.count(at), at)))
        self.running[task.place] = task
        return task

    def next_block(self) -> list[SeedTask]:
        """Returns the seed runs that are to be trained next, together; none at present if empty.

        Without lockstep it is one; with it, what is missing of a block of replicates.
        """
        first = self.next()
        if first is None:
            return []
        configuration, replicate = first.place
        others = [(configuration, number) for number in self.study.block(replicate)]
        block = [first, *(self.waiting.pop(place) for place in others if place in self.waiting)]
        self.running |= {task.place: task for task in block}
        return block

    def finish(self, task: SeedTask, run: SeedRun, *, stored: bool = False, node: str = "") -> None:
        """Takes in a finished seed run, of a node if it was trained just now."""
        self.running.pop(task.place, None)
        if node:
            self.losses.finished_on(node)
        if task.place in self.done:
            return
        # Predictions of thousands of seed runs would fill the memory, and nothing here reads them.
        self.done[task.place] = run = replace(run, predictions={})
        for listener in self.listeners:
            listener.finished(task, run, stored=stored)
        number = task.configuration.number
        places = [(number, replicate.number) for replicate in self.replicates]
        runs = [self.done[place] for place in places if place in self.done]
        if len(runs) == len(places):
            figures = figures_of(number, runs, self.study.rule, self.study.metric)
            self.scores[number] = figures.score
            for listener in self.listeners:
                listener.scored(figures)

    def put_back(self, task: SeedTask) -> None:
        """Takes in a seed run that was not begun."""
        del self.running[task.place]
        self.waiting[task.place] = task

    def lose(self, task: SeedTask, loss: Loss) -> None:
        """Takes in a seed run that was not finished: it is tried again or fails for good.

        Raises:
            SclsearchError: It has no try left, and not it but a machine is at fault.
        """
        self.running.pop(task.place, None)
        if self.losses.add(task.place, loss):
            self.waiting[task.place] = task
            return
        configuration, replicate = task.place
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

    def validation(self, run: SeedRun) -> float | None:
        """Returns the validation figure of a seed run, None if it failed."""
        return None if run.validation is None else value(self.study.metric, run.validation)

    def _may_open(self) -> bool:
        number = len(self.configurations)
        if self.exhausted or number >= self.configs:
            return False
        return all(earlier in self.scores for earlier in self._settled(number))

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
        for listener in self.listeners:
            listener.opened(configuration)
        self._read(configuration)
        return True

    def _read(self, configuration: ConfigurationRecord) -> None:
        tasks = list(self._tasks(configuration))
        if self.retry_failed and not self.dry:
            for task in tasks:
                self.runs.forget_failure(task.key)
        stored = self.runs.get_all(task.key for task in tasks)
        for task, run in zip(tasks, stored, strict=True):
            if run is None or (self.retry_failed and run.failure is not None):
                self.waiting[task.place] = task
            else:
                self.finish(task, run, stored=True)

    def _known(self) -> list[Known]:
        settled = self._settled(len(self.configurations))
        return [
            Known(earlier.values, self.score(earlier.number) if earlier.number in settled else None)
            for earlier in self.configurations
        ]

    def _settled(self, number: int) -> range:
        """Returns the configurations whose scores the proposal of another depends on."""
        return range(number - self.record.open_configurations + 1)

    def _tasks(self, configuration: ConfigurationRecord) -> Iterator[SeedTask]:
        for replicate in self.replicates:
            identity = seed_run_identity(self.record, configuration, replicate)
            yield SeedTask(configuration, replicate, identity, digest(identity))
