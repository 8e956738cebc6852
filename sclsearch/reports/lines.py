"""The lines of a report: a configuration under a rule, and its seed runs."""

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
    """One seed run of a configuration.

    Attributes:
        replicate: Its replicate.
        key: Its name in the run store.
        validation: Validation figure; None if it failed.
        test: Test figure; None if it failed.
        failure: Why it failed; None if it did not.
    """

    replicate: int
    key: str
    validation: float | None
    test: float | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class ConfigurationLine:
    """One configuration under the rule.

    Attributes:
        number: Its number.
        origin: `published`, `start`, `sampled` or `given`.
        values: Values of the searched parameters; of what is fixed where nothing is searched.
        fields: Every field of method and training.
        seeds: Its finished seed runs.
        score: The rule's score; None while seed runs are missing.
        reported: Positions among `seeds` that the report is made of, best validation first.
        test_mean: Mean test figure of those; None without any.
        test_std: Their sample standard deviation; None for fewer than two.
        forecast: What it may come to where some seed runs are missing and some are not; else None.
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
        """Mean and deviation of the test figure over all seeds that did not fail, if any."""
        tests = [seed.test for seed in self.seeds if seed.test is not None]
        return mean_std(tests) if tests else None

    @property
    def failed(self) -> int:
        """How many seed runs failed for good."""
        return sum(seed.failure is not None for seed in self.seeds)


def line_of(
    configuration: ConfigurationRecord,
    runs: Iterable[tuple[int, SeedRun | None]],
    order: Sequence[str],
    rule: Rule,
    metric: str,
) -> ConfigurationLine:
    """Returns a configuration under a rule.

    Args:
        configuration: The configuration.
        runs: Numbers of the replicates and their seed runs, None where one is missing.
        order: Names of the searched parameters as the space has them; of what is fixed where
            nothing is searched.
        rule: How seeds are counted.
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
    """Returns the lines with what unfinished ones may come to, and how likely one would win.

    Args:
        lines: All of a study.
        rule: How seeds are counted.
        metric: Name of the metric.
        replicates: Numbers of the replicates of each configuration.
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
