"""What a configuration has come to, once all its seed runs have ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sclsearch.selection.ranking import mean_std, reported, score
from sclsearch.selection.rules import Rule
from sclsearch.store.runs import SeedRun
from sclsearch.tasks.metrics import METRICS, value


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a configuration.

    Attributes:
        number: The configuration's number.
        score: By the rule.
        test: Mean test figure of the replicates that the rule reports and their deviation, as
            MLflow names them; empty if all failed.
    """

    number: int
    score: float
    test: Mapping[str, float]

    @property
    def rank(self) -> tuple[float, int]:
        """The larger, the better; of equal scores the lowest number wins."""
        return self.score, -self.number


def figures_of(number: int, runs: Sequence[SeedRun], rule: Rule, metric: str) -> Figures:
    """Returns the figures of a configuration out of all its seed runs."""
    validation = [None if r.validation is None else value(metric, r.validation) for r in runs]
    tests = [value(metric, runs[position].test) for position in reported(rule, validation)]
    mean, std = mean_std(tests) if tests else (None, None)
    named = {f"test.{metric}": mean, f"test.{metric}.std": std}
    return Figures(
        number,
        score(rule, validation, METRICS[metric].minimum),
        {name: figure for name, figure in named.items() if figure is not None},
    )
