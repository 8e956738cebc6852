"""What a configuration is worth by the figures of its seeds, and which of them are reported."""

import math
from collections.abc import Sequence

from sclsearch.selection.rules import Rule


def score(rule: Rule, validation: Sequence[float | None], minimum: float) -> float:
    """Returns the score of a configuration.

    Args:
        rule: How seeds are counted.
        validation: Figure of each seed, None where it failed.
        minimum: What a failed seed counts as.
    """
    return rule.score.value([minimum if figure is None else figure for figure in validation])


def reported(rule: Rule, validation: Sequence[float | None]) -> tuple[int, ...]:
    """Returns which seeds the report is made of, best first; failed ones have no figure."""
    finished = [position for position, figure in enumerate(validation) if figure is not None]
    figures = [figure for figure in validation if figure is not None]
    return tuple(finished[position] for position in rule.report.seeds(figures))


def reported_test(
    rule: Rule, validation: Sequence[float | None], test: Sequence[float | None]
) -> tuple[tuple[int, ...], float | None, float | None]:
    """Returns which seeds the report is made of, the mean of their test figures and its deviation.

    Args:
        rule: How seeds are counted.
        validation: Figure of each seed, None where it failed.
        test: The same of the test.
    """
    positions = reported(rule, validation)
    figures = [figure for position in positions if (figure := test[position]) is not None]
    return (positions, *(mean_std(figures) if figures else (None, None)))


def mean_std(figures: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean and sample standard deviation; of one figure there is no deviation."""
    mean = math.fsum(figures) / len(figures)
    if len(figures) < 2:
        return mean, None
    squares = math.fsum((figure - mean) ** 2 for figure in figures)
    return mean, math.sqrt(squares / (len(figures) - 1))
