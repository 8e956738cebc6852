"""State of a search: its results so far, and everything that follows from them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sclsearch.errors import lookup
from sclsearch.selection.race import Band, Race, SeedRunId
from sclsearch.selection.rules import Rule, reported, reported_test, score
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.studies import ConfigurationRecord, ReplicateRecord, StudyRecord, seed_run_key
from sclsearch.tasks.metrics import MAXIMUM, METRICS, validation_loss

if TYPE_CHECKING:
    from sclsearch.training.evaluation import TrainingResult


class Running(NamedTuple):
    """Progress of a seed run in training."""

    seconds: float  # since its trial began
    share: float = 0.0  # of its updates that are done
    expected: float | None = None  # seconds of the whole seed run at its present speed


@dataclass(frozen=True, slots=True)
class SeedRunTask:
    """A seed run to train, or to train again for a test score or its weights."""

    configuration: ConfigurationRecord
    replicate: ReplicateRecord
    identity: Mapping[str, Any]  # everything that determines its result
    key: str  # SHA-256 of the identity
    test: bool = True  # whether its result must have a test score
    weights: bool = False  # whether its weights are stored

    @property
    def id(self) -> SeedRunId:
        return self.configuration.number, self.replicate.number

    def is_done(self, run: SeedRun) -> bool:
        """Return whether a stored seed run has all the scores that this task asks for."""
        return not (self.test and run.untested)


def with_result(run: SeedRun, result: "TrainingResult") -> SeedRun:
    """Return the seed run with the results of its training."""
    return replace(
        run,
        notes=result.notes,
        stages=tuple(result.stages),
        evaluations=tuple(result.evaluations),
        kept=result.kept,
        test=result.test,
        predictions=result.predictions,
        seconds=result.seconds,
    )


@dataclass(frozen=True, slots=True)
class ConfigurationScore:
    """Score and test results of a configuration whose seed runs have all finished.

    `loss` is the mean validation loss of the seeds that the score counts and that did not fail;
    infinite if there are none. `test_mean` and `test_std` are those of the replicates that the rule
    reports. They are None if all failed or one has no test score yet, `test_std` also for one seed.
    """

    number: int
    score: float
    loss: float
    test_mean: float | None
    test_std: float | None

    @property
    def rank(self) -> tuple[float, float, int]:
        """Sort key: the largest is the best.

        The lowest validation loss decides between equal scores, then the lowest number.
        """
        return self.score, -self.loss, -self.number


class SearchState:
    """Configurations, seed runs, scores and race of a study under a selection rule.

    The state only grows: it never changes or removes what it has, except that test scores may
    come later.

    `replicates` are those of a complete configuration. `seed_runs`, without their predictions, and
    `tested_later`, whose test score came after their training, are in order of arrival, `scores` in
    order of completion. `race` has the validation scores by index in `configurations`. A `compact`
    state keeps of seed runs what selection needs, without curves and the like.
    """

    def __init__(
        self,
        record: StudyRecord,
        replicates: Sequence[ReplicateRecord],
        rule: Rule,
        band: Band = None,
        *,
        compact: bool = False,
    ) -> None:
        self.record, self.replicates, self.rule = record, replicates, rule
        self.compact = compact
        self.metric = str(record.training["metric"])
        self.configurations: list[ConfigurationRecord] = []
        self.seed_runs: dict[SeedRunId, SeedRun] = {}
        self.scores: dict[int, ConfigurationScore] = {}
        self.tested_later: list[SeedRunId] = []
        self._lowest = lookup(METRICS, self.metric, "metric").minimum
        self.race = Race(rule.score, MAXIMUM, len(replicates), band)
        # A damaged record leaves a gap in the numbers, but none in the race.
        self._indices: dict[int, int] = {}
        self.seeds = {replicate.number: seed for seed, replicate in enumerate(replicates)}

    @classmethod
    def from_records(
        cls,
        record: StudyRecord,
        replicates: Sequence[ReplicateRecord],
        configurations: Iterable[ConfigurationRecord],
        runs: Iterable[tuple[SeedRunId, SeedRun]],
        rule: Rule,
        band: Band = None,
    ) -> "SearchState":
        """Return the state of a study from its records and seed runs."""
        state = cls(record, replicates, rule, band)
        for configuration in configurations:
            state.add_configuration(configuration)
        for (number, replicate), run in runs:
            state.add_seed_run(number, replicate, run)
        return state

    def add_configuration(self, configuration: ConfigurationRecord) -> None:
        self._indices[configuration.number] = len(self.configurations)
        self.configurations.append(configuration)
        self.race.add_configuration()
        self.race.keep_first = self.start is not None

    def add_seed_run(
        self, configuration: int, replicate: int, run: SeedRun
    ) -> ConfigurationScore | None:
        """Add a finished seed run; return the configuration's score if that completes it."""
        self._note(configuration, replicate, run)
        if len(self.runs_of(configuration)) < len(self.replicates):
            return None
        self.scores[configuration] = self._score(configuration)
        return self.scores[configuration]

    def add_test(self, configuration: int, replicate: int, run: SeedRun) -> None:
        self.tested_later.append((configuration, replicate))
        # A seed run that was trained again on another processor may have other validation scores.
        self._note(configuration, replicate, run)
        if configuration in self.scores:
            self.scores[configuration] = self._score(configuration)

    def _note(self, configuration: int, replicate: int, run: SeedRun) -> None:
        index, seed = self._indices[configuration], self.seeds[replicate]
        # Predictions of thousands of seed runs would fill the memory.
        kept = replace(run, predictions={})
        if self.compact:
            kept = replace(run.compact(), identity={"rows": self.replicates[seed].rows})
        self.seed_runs[configuration, replicate] = kept
        validated = run.validated(self.metric)
        self.race.add_score(index, seed, self._lowest if validated is None else validated)

    def _score(self, configuration: int) -> ConfigurationScore:
        runs = self.runs_of(configuration).values()
        validation = [run.validated(self.metric) for run in runs]
        test = [run.tested(self.metric) for run in runs]
        _, mean, std = reported_test(self.rule, validation, test)
        found = score(self.rule, validation, self._lowest)
        counted = self.rule.score.seeds(self._validations(configuration))
        evaluations = [[run.validation for run in runs][position] for position in counted]
        losses = [validation_loss(one) for one in evaluations if one is not None]
        loss = math.fsum(losses) / len(losses) if losses else math.inf
        return ConfigurationScore(configuration, found, loss, mean, std)

    def runs_of(self, configuration: int) -> dict[int, SeedRun]:
        return {
            replicate: run
            for replicate in self.seeds
            if (run := self.seed_runs.get((configuration, replicate))) is not None
        }

    @property
    def winner(self) -> ConfigurationScore | None:
        """The complete configuration that wins under the rule; None if there is none.

        It is the best one, or under a rule with a margin the start, unless the best is above it.
        """
        best = max(self.scores.values(), key=lambda one: one.rank, default=None)
        start = None if self.start is None else self.scores.get(self.start.number)
        if best is None or start is None:
            return best
        if any(run.failure for run in self.runs_of(start.number).values()):
            return best
        seeds = (self._validations(one.number) for one in (best, start))
        return best if self.rule.prefers(*seeds) else start

    @property
    def start(self) -> ConfigurationRecord | None:
        """The configuration that wins unless another one is better by the rule's margin."""
        first = self.configurations[0] if self.configurations and self.rule.margin else None
        return None if first is None or first.origin == "sampled" else first

    def _validations(self, configuration: int) -> list[float]:
        """Return the validation scores by seed, the metric's minimum for failed ones."""
        scores = [run.validated(self.metric) for run in self.runs_of(configuration).values()]
        return [self._lowest if one is None else one for one in scores]

    @property
    def best_seed(self) -> SeedRunId | None:
        """The winner's seed run with the best validation score; None if there is none."""
        if self.winner is None:
            return None
        runs = self.runs_of(self.winner.number)
        validation = [run.validated(self.metric) for run in runs.values()]
        found = reported(self.rule, validation)
        return (self.winner.number, [*runs][found[0]]) if found else None

    @property
    def paused(self) -> set[int]:
        """Numbers of the configurations that lack seeds which a finished race does not need."""
        if self.race.band is None or not self.race.decided:
            return set()
        return {one.number for one in self.configurations} - self.scores.keys()

    def next_in_race(
        self, running: Iterable[SeedRunId], *, all_open: bool, ahead: bool = False
    ) -> SeedRunId | None:
        """Return the seed run that the race needs next, as `Race.next` or `Race.ahead` does."""
        places = {(self._indices[number], self.seeds[seed]) for number, seed in running}
        choose = self.race.ahead if ahead else self.race.next
        place = choose(places, all_open=all_open)
        if place is None:
            return None
        index, seed = place
        return self.configurations[index].number, self.replicates[seed].number

    def first_scores(self, start: int = 0) -> list[float]:
        """Return the scores by the seeds that a race gives to all, NaN where unknown.

        They are those of the configurations from index `start` on.
        """
        return [*map(float, self.race.values(self.race.stages[0], self.race.scores[start:]))]


def stored_state(
    runs: RunStore,
    record: StudyRecord,
    replicates: Sequence[ReplicateRecord],
    configurations: Sequence[ConfigurationRecord],
    rule: Rule,
    band: Band = None,
) -> tuple[SearchState, list[str]]:
    """Return the state of a study from stored seed runs, and messages about damaged ones."""
    finished, damaged = list[tuple[SeedRunId, SeedRun]](), list[str]()
    for configuration in configurations:
        keys = [seed_run_key(record, configuration, replicate) for replicate in replicates]
        found, faults = runs.get_valid(keys)
        damaged += faults.values()
        for replicate, run in zip(replicates, found, strict=True):
            if run is not None:  # thousands of seed runs would fill the memory with predictions
                finished.append(
                    ((configuration.number, replicate.number), replace(run, predictions={}))
                )
    return SearchState.from_records(
        record, replicates, configurations, finished, rule, band
    ), damaged
