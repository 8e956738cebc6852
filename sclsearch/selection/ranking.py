"""Score of a configuration from its seeds, and the choice of the seeds that a report uses."""

import math
from collections.abc import Sequence

from sclsearch.selection.rules import Rule


def score(rule: Rule, validation: Sequence[float | None], minimum: float) -> float:
    """Return the score of a configuration.

    Args:
        rule: Selection rule.
        validation: Validation score of each seed; None for a failed seed.
        minimum: Score of a failed seed, the metric's lowest value.
    """
    return rule.score.value([minimum if figure is None else figure for figure in validation])


def reported(rule: Rule, validation: Sequence[float | None]) -> tuple[int, ...]:
    """Return the positions of the seeds in the report, best first, without failed seeds."""
    finished = [position for position, figure in enumerate(validation) if figure is not None]
    figures = [figure for figure in validation if figure is not None]
    return tuple(finished[position] for position in rule.report.seeds(figures))


def reported_test(
    rule: Rule, validation: Sequence[float | None], test: Sequence[float | None]
) -> tuple[tuple[int, ...], float | None, float | None]:
    """Return the positions of the reported seeds, and mean and deviation of their test scores.

    The deviation is the sample standard deviation. Mean and deviation are None without a score.

    Args:
        rule: Selection rule.
        validation: Validation score of each seed; None for a failed seed.
        test: Test score of each seed; None for a failed seed.
    """
    positions = reported(rule, validation)
    figures = [figure for position in positions if (figure := test[position]) is not None]
    return (positions, *(mean_std(figures) if figures else (None, None)))


def mean_std(figures: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation; the deviation of a single score is None."""
    mean = math.fsum(figures) / len(figures)
    if len(figures) < 2:
        return mean, None
    squares = math.fsum((figure - mean) ** 2 for figure in figures)
    return mean, math.sqrt(squares / (len(figures) - 1))
