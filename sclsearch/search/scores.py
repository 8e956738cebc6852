"""Score of a configuration whose seed runs have all finished."""

from collections.abc import Sequence
from dataclasses import dataclass

from sclsearch.selection.ranking import reported_test, score
from sclsearch.selection.rules import Rule
from sclsearch.store.runs import SeedRun
from sclsearch.tasks.metrics import METRICS


@dataclass(frozen=True, slots=True)
class ConfigurationScore:
    """Score and test results of a configuration.

    Attributes:
        number: The configuration's number.
        score: Its score under the rule.
        test_mean: Mean test metric of the replicates that the rule reports; None if all failed.
        test_std: Sample standard deviation of these test metrics; None for fewer than two.
    """

    number: int
    score: float
    test_mean: float | None
    test_std: float | None

    @property
    def rank(self) -> tuple[float, int]:
        """Sort key: the largest is the best; of equal scores the lowest number wins."""
        return self.score, -self.number


def configuration_score(
    number: int, runs: Sequence[SeedRun], rule: Rule, metric: str
) -> ConfigurationScore:
    """Return the score and test results of a configuration from all its seed runs."""
    validation = [run.validated(metric) for run in runs]
    tests = [run.tested(metric) for run in runs]
    _, mean, std = reported_test(rule, validation, tests)
    return ConfigurationScore(number, score(rule, validation, METRICS[metric].minimum), mean, std)
