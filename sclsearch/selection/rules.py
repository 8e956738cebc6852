"""Selection rules: the score of a configuration from its seeds, and the seeds of a report."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sclsearch.errors import SclsearchError

DECIMALS = 12
"""Decimals to which scores are rounded: sums of equal scores may differ in the last bit."""


@dataclass(frozen=True, slots=True)
class Top:
    """Mean over the k seeds with the best validation scores, or over all seeds if k is None."""

    k: int | None = None

    def __str__(self) -> str:
        return {None: "mean", 1: "best"}.get(self.k, f"top-{self.k}")

    def seeds(self, scores: Sequence[float]) -> tuple[int, ...]:
        """Return the positions of the seeds that count, best first; ties go by position."""
        order = sorted(range(len(scores)), key=lambda position: (-scores[position], position))
        return tuple(order[: self.k])

    def value(self, scores: Sequence[float]) -> float:
        """Return the mean over the seeds that count, independent of the order of the seeds."""
        counted = self.seeds(scores)
        return round(math.fsum(scores[position] for position in counted) / len(counted), DECIMALS)


@dataclass(frozen=True, slots=True)
class Rule:
    """Selection rule: how seeds score a configuration, and the seeds in the test report."""

    score: Top  # combines the validation scores of the seeds into a configuration's score
    report: Top  # chooses the winner's seeds for the reported test score
    margin: float = 0.0  # standard errors by which a configuration must be above the start to win

    def __str__(self) -> str:
        if self.margin:
            return "careful"
        return str(self.score) if self.score == self.report else f"{self.score}/{self.report}"

    @property
    def least(self) -> int:
        return max(self.score.k or 1, self.report.k or 1)

    def prefers(self, ours: Sequence[float], start: Sequence[float]) -> bool:
        """Return whether a configuration with these scores by seed wins against the start."""
        mean, std = mean_std([a - b for a, b in zip(ours, start, strict=True)])
        return mean > self.margin * (std or 0.0) / math.sqrt(len(ours))

    def check(self, seeds: int) -> None:
        """Raise SclsearchError if the rule needs more seeds than `seeds`."""
        if seeds < self.least:
            raise SclsearchError(
                f"--seeds: rule {self} needs at least {self.least}, got {seeds}. "
                "Pass more --seeds, or another --rule."
            )


MEAN = Rule(score=Top(), report=Top())
CAREFUL = replace(MEAN, margin=2.0)
_TOP = re.compile(r"mean|best|top-[1-9]\d*")


def parse_rule(text: str) -> Rule:
    """Return the rule for a name: `careful`, `mean`, `best`, `top-3`, or score/report."""
    if text == str(CAREFUL):
        return CAREFUL
    parts = text.split("/")
    if len(parts) > 2 or not all(_TOP.fullmatch(part) for part in parts):
        raise SclsearchError(
            f"Unknown rule {text!r}. Known: careful, mean, best, top-K, or one for the score and "
            "one for the report, as in mean/best."
        )
    known = {"mean": Top(), "best": Top(1)}
    tops = [known.get(part) or Top(int(part.removeprefix("top-"))) for part in parts]
    return Rule(tops[0], tops[-1])


def score(rule: Rule, validation: Sequence[float | None], minimum: float) -> float:
    """Return the score of a configuration; a failed seed, None, counts as `minimum`."""
    return rule.score.value([minimum if one is None else one for one in validation])


def reported(rule: Rule, validation: Sequence[float | None]) -> tuple[int, ...]:
    """Return the positions of the seeds in the report, best first, without failed seeds."""
    finished = {position: one for position, one in enumerate(validation) if one is not None}
    positions = list(finished)
    return tuple(positions[n] for n in rule.report.seeds([*finished.values()]))


def reported_test(
    rule: Rule, validation: Sequence[float | None], test: Sequence[float | None]
) -> tuple[tuple[int, ...], float | None, float | None]:
    """Return the positions of the reported seeds, and mean and deviation of their test scores.

    The deviation is the sample standard deviation. Mean and deviation are None unless all reported
    seeds have a test score. `validation` and `test` have the scores of each seed; None for a failed
    seed, in `test` also for one without a test score.
    """
    positions = reported(rule, validation)
    scores = [one for position in positions if (one := test[position]) is not None]
    complete = scores and len(scores) == len(positions)
    return (positions, *(mean_std(scores) if complete else (None, None)))


def mean_std(scores: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation; the deviation of a single score is None."""
    mean = math.fsum(scores) / len(scores)
    if len(scores) < 2:
        return mean, None
    squares = math.fsum((one - mean) ** 2 for one in scores)
    return mean, math.sqrt(squares / (len(scores) - 1))
