"""Rules: mean, top k and best over the seeds of a configuration."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sclsearch.errors import SclsearchError

DECIMALS = 12
"""Figures are compared rounded to these: sums of equal ones may differ in their last bit."""


@dataclass(frozen=True, slots=True)
class Top:
    """The k best seeds by validation score; all of them without a k.

    Attributes:
        k: How many seeds count; None is all, 1 the best alone.
    """

    k: int | None = None

    def __str__(self) -> str:
        """Returns `mean`, `best` or `top-k`."""
        return {None: "mean", 1: "best"}.get(self.k, f"top-{self.k}")

    def seeds(self, scores: Sequence[float]) -> tuple[int, ...]:
        """Returns the positions that count, best first; among equals the earlier position."""
        order = sorted(range(len(scores)), key=lambda position: (-scores[position], position))
        return tuple(order[: self.k])

    def value(self, scores: Sequence[float]) -> float:
        """Returns the mean over the seeds that count; does not depend on their order."""
        counted = self.seeds(scores)
        return round(math.fsum(scores[position] for position in counted) / len(counted), DECIMALS)


@dataclass(frozen=True, slots=True)
class Rule:
    """A selection rule.

    Attributes:
        score: How validation scores of the seeds rank a configuration.
        report: Which seeds of the winner the test figure is made of.
    """

    score: Top
    report: Top

    def __str__(self) -> str:
        """Returns what `parse_rule` reads."""
        return str(self.score) if self.score == self.report else f"{self.score}/{self.report}"

    @property
    def least(self) -> int:
        """How many seeds it needs."""
        return max(self.score.k or 1, self.report.k or 1)

    def check(self, seeds: int) -> None:
        """Raises SclsearchError if the rule counts more seeds than there are."""
        if seeds < self.least:
            raise SclsearchError(
                f"--seeds: rule {self} needs at least {self.least} seeds, but there are {seeds}. "
                "Give more seeds or another --rule."
            )


def parse_rule(text: str) -> Rule:
    """Returns the rule that a text names: `mean`, `best`, `top-3`, or score and report `mean/best`.

    Raises:
        SclsearchError: It names none.
    """
    splits = text.split("/")
    if len(splits) > 2:
        raise _unknown(text)
    tops = [_parse_top(part, text) for part in splits]
    return Rule(tops[0], tops[-1])


def _parse_top(part: str, text: str) -> Top:
    if part == "mean":
        return Top()
    if part == "best":
        return Top(1)
    found = re.fullmatch(r"top-([1-9]\d*)", part)
    if found is None:
        raise _unknown(text)
    return Top(int(found[1]))


def _unknown(text: str) -> SclsearchError:
    return SclsearchError(
        f"Unknown rule {text!r}. It must be mean, best, top-K, or one for the score and one for "
        "the report, as in mean/best."
    )
