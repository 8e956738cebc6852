"""Ranks configurations by the scores of their seeds, and says what the winner is worth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sclsearch.selection.rules import Rule


@dataclass(frozen=True, slots=True)
class Ranked:
    """A configuration with its place.

    Attributes:
        number: The configuration's number.
        score: Its score under the rule.
        failed: How many of its seeds failed for good.
    """

    number: int
    score: float
    failed: int


def score(rule: Rule, validation: Sequence[float | None], minimum: float) -> float:
    """Returns the score of a configuration.

    Args:
        rule: How seeds are counted.
        validation: Figure of each seed, None where it failed.
        minimum: What a failed seed counts as.
    """
    return rule.score.value([minimum if figure is None else figure for figure in validation])


def rank(rule: Rule, validation: Sequence[Sequence[float | None]], minimum: float) -> list[Ranked]:
    """Returns the configurations, best first; among equals the one that came first.

    Args:
        rule: How seeds are counted.
        validation: For each configuration the figure of each seed, None where it failed.
        minimum: What a failed seed counts as.
    """
    ranked = [
        Ranked(number, score(rule, figures, minimum), sum(f is None for f in figures))
        for number, figures in enumerate(validation)
    ]
    return sorted(ranked, key=lambda one: (-one.score, one.number))


def reported(rule: Rule, validation: Sequence[float | None]) -> tuple[int, ...]:
    """Returns which seeds the report is made of, best first; failed ones have no figure."""
    finished = [position for position, figure in enumerate(validation) if figure is not None]
    figures = [figure for figure in validation if figure is not None]
    return tuple(finished[position] for position in rule.report.seeds(figures))


def mean_std(figures: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean and sample standard deviation; of one figure there is no deviation."""
    mean = math.fsum(figures) / len(figures)
    if len(figures) < 2:
        return mean, None
    squares = math.fsum((figure - mean) ** 2 for figure in figures)
    return mean, math.sqrt(squares / (len(figures) - 1))
