"""Lines of a report: one per configuration, with its score under a rule and its seed runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sclsearch.selection.posterior import Forecast
from sclsearch.selection.race import Race
from sclsearch.selection.ranking import mean_std, reported_test, score
from sclsearch.selection.rules import Rule
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.tasks.metrics import MAXIMUM, METRICS


@dataclass(frozen=True, slots=True)
class SeedLine:
    """Scores of one seed run of a configuration.

    Attributes:
        replicate: Number of its replicate.
        key: Key of the seed run in the run store.
        validation: Validation score; None if the seed run failed.
        test: Test score; None if the seed run failed.
        failure: Cause and message of the failure; None on success.
    """

    replicate: int
    key: str
    validation: float | None
    test: float | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class ConfigurationLine:
    """Scores of one configuration under a selection rule.

    Attributes:
        number: Number of the configuration in its study.
        origin: `published`, `start`, `sampled` or `given`; for a baseline its name.
        values: Values of the searched hyperparameters, or of the fixed ones if none is searched.
        fields: Every hyperparameter of method and training.
        seeds: Finished seed runs.
        score: Score under the rule; None while seed runs are missing.
        reported: Indices into `seeds` of the reported seed runs, best validation score first.
        test_mean: Mean test score of the reported seed runs; None if there are none.
        test_std: Sample standard deviation of these test scores; None for fewer than two.
        forecast: Predicted final score if some, but not all, seed runs are missing; else None.
    """

    number: int
    origin: str
    values: Mapping[str, Any]
    fields: Mapping[str, Any]
    seeds: tuple[SeedLine, ...]
    score: float | None
    reported: tuple[int, ...]
    test_mean: float | None
    test_std: float | None
    forecast: Forecast | None = None

    @property
    def plain(self) -> tuple[float, float | None] | None:
        """Return mean and standard deviation of all test scores; None if no seed run succeeded."""
        tests = [seed.test for seed in self.seeds if seed.test is not None]
        return mean_std(tests) if tests else None

    @property
    def failed(self) -> int:
        """Return the number of seed runs that failed permanently."""
        return sum(seed.failure is not None for seed in self.seeds)


def line_of(
    configuration: ConfigurationRecord,
    runs: Iterable[tuple[int, SeedRun | None]],
    order: Sequence[str],
    rule: Rule,
    metric: str,
) -> ConfigurationLine:
    """Return the report line of a configuration under a selection rule.

    Args:
        configuration: The configuration.
        runs: Replicate numbers with their seed runs; None for a missing seed run.
        order: Names of the searched hyperparameters in the order of the space, or of the fixed
            ones if none is searched.
        rule: Selection rule that aggregates the seeds.
        metric: Name of the metric.
    """
    asked, known = list(runs), configuration.values or configuration.fields
    finished = [(number, run) for number, run in asked if run is not None]
    seeds = tuple(
        SeedLine(
            replicate=number,
            key=run.key,
            validation=run.validated(metric),
            test=run.tested(metric),
            failure=f"{run.failure.cause}: {run.failure.message}" if run.failure else None,
        )
        for number, run in finished
    )
    figures = [seed.validation for seed in seeds]
    counted, mean, std = reported_test(rule, figures, [seed.test for seed in seeds])
    return ConfigurationLine(
        number=configuration.number,
        origin=configuration.origin,
        values={name: known[name] for name in order if name in known},
        fields=configuration.fields,
        seeds=seeds,
        score=score(rule, figures, METRICS[metric].minimum) if len(seeds) == len(asked) else None,
        reported=counted,
        test_mean=mean,
        test_std=std,
    )


def with_forecasts(
    lines: Sequence[ConfigurationLine], rule: Rule, metric: str, replicates: Sequence[int]
) -> tuple[list[ConfigurationLine], float]:
    """Return the lines with forecasts for unfinished configurations, and the risk that one wins.

    The risk is the probability that an unfinished configuration would win with all its seeds.

    Args:
        lines: All lines of a study.
        rule: Selection rule that aggregates the seeds.
        metric: Name of the metric.
        replicates: Replicate numbers of each configuration.
    """
    race = Race(rule.score, METRICS[metric].minimum, MAXIMUM, len(replicates))
    for number, line in enumerate(lines):
        race.open()
        for seed in line.seeds:
            race.note(number, replicates.index(seed.replicate), seed.validation)
    forecasts, risk = race.odds()
    return [
        replace(line, forecast=forecasts.get(number)) for number, line in enumerate(lines)
    ], risk
