"""What a configuration has come to, once all its seed runs have ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from sclsearch.selection.ranking import reported_test, score
from sclsearch.selection.rules import Rule
from sclsearch.store.runs import SeedRun
from sclsearch.tasks.metrics import METRICS


@dataclass(frozen=True, slots=True)
class ConfigurationScore:
    """The figures of a configuration.

    Attributes:
        number: The configuration's number.
        score: By the rule.
        test_mean: Mean test figure of the replicates that the rule reports; None if all failed.
        test_std: Their sample standard deviation; None for fewer than two.
    """

    number: int
    score: float
    test_mean: float | None
    test_std: float | None

    @property
    def rank(self) -> tuple[float, int]:
        """The larger, the better; of equal scores the lowest number wins."""
        return self.score, -self.number


def configuration_score(
    number: int, runs: Sequence[SeedRun], rule: Rule, metric: str
) -> ConfigurationScore:
    """Returns the figures of a configuration out of all its seed runs."""
    validation = [run.validated(metric) for run in runs]
    tests = [run.tested(metric) for run in runs]
    _, mean, std = reported_test(rule, validation, tests)
    return ConfigurationScore(number, score(rule, validation, METRICS[metric].minimum), mean, std)
