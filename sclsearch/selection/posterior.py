"""Posterior of a configuration's final score, given the seeds observed so far.

The model of a score is the configuration's mean, plus an effect of the seed that all configurations
share, plus noise.

- The mean is not shrunk towards the means of other configurations. A sampler that learns would
  make such shrinkage unfair to late configurations.
- Expectation-maximization estimates the seed effects from the two-way table with missing cells.
- Each configuration has its own noise variance, shrunk towards a common variance. Predictions
  therefore have the tails of Student's t distribution.
- Scores outside the selection rule's exact bounds get probability 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sclsearch.randomness import stream
from sclsearch.selection.rules import DECIMALS, Top

Numbers = npt.NDArray[np.float64]

DRAWS = 2**14
ITERATIONS = 30
COMMON = 4.0
"""Degrees of freedom with which the common variance enters a configuration's variance."""
USUAL_DEVIATION = 0.015
"""Prior standard deviation over a configuration's seeds, as a share of the metric's range."""
USUAL = 1.0
"""Degrees of freedom of that prior, so that equal scores so far do not imply zero variance."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted final score of a configuration with missing seeds.

    Attributes:
        better: Model probability that the score reaches the best score that is already certain.
        expected: Expected score, from the configuration's own seeds. It is slightly too low for a
            paused configuration, because bad seeds are the reason for the pause.
    """

    better: float
    expected: float


def risk_of(forecasts: Iterable[Forecast | None]) -> float:
    """Return an upper bound of the probability that any of the forecast configurations wins.

    None stands for a configuration without a forecast and counts as probability 1.
    """
    return min(1.0, sum(1.0 if forecast is None else forecast.better for forecast in forecasts))


class ScorePosterior:
    """Posterior of the final scores of all configurations of a search.

    Args:
        top: Rule that combines the validation scores of the seeds into a configuration's score.
        scores: Score of each configuration and seed, `[C, n]`; NaN where it is unknown.
        low: Lowest possible score.
        high: Highest possible score.
    """

    def __init__(
        self, top: Top, scores: Sequence[Sequence[float]], low: float, high: float
    ) -> None:
        self.top, self.low, self.high = top, low, high
        self.scores = np.asarray(scores, dtype=np.float64)
        self.seen = ~np.isnan(self.scores)
        worst = np.where(self.seen, self.scores, low)
        self.certain = max((top.value(row) for row in worst.tolist()), default=low)
        self._fit()

    def forecast(self, number: int) -> Forecast:
        """Return the forecast of a configuration that has at least one known seed score."""
        row, seen = self.scores[number], self.seen[number]
        finals = self._finals(self._drawn(row, seen))
        expected = float(finals.mean())
        if self.top.value(np.where(seen, row, self.high).tolist()) < self.certain:
            return Forecast(0.0, expected)
        # Add one to both counts: an event absent from the draws still has a positive probability.
        reached = int((finals.round(DECIMALS) >= self.certain).sum())
        better = (reached + 1) / (len(finals) + 1)
        return Forecast(better if reached else min(better, self._tail(finals, seen)), expected)

    def _fit(self) -> None:
        """Estimate the effect of each seed, which all configurations share, and the variance."""
        seen, scores = self.seen, np.nan_to_num(self.scores)
        counts = seen.sum(1, keepdims=True)
        freedom = np.maximum(counts - 1, 0)
        usual = (USUAL_DEVIATION * (self.high - self.low)) ** 2
        self.effects, self.doubt = np.zeros(seen.shape[1]), np.zeros(seen.shape[1])
        # Start with a wide prior: a narrow start would absorb the seed effects into the noise.
        self.variance = between = usual + float(np.nanvar(self.scores))
        for _ in range(ITERATIONS):
            means = (scores - seen * self.effects).sum(1, keepdims=True) / np.maximum(counts, 1)
            rest = seen * (scores - means)
            squares = ((rest - seen * self.effects) ** 2 + seen * self.doubt).sum(1, keepdims=True)
            # A configuration with more spread over its seeds gets a lower weight.
            weights = (COMMON + freedom) / (COMMON + squares / self.variance)
            total = float((weights * squares).sum()) + USUAL * usual
            self.variance = total / (float(freedom.sum()) + USUAL)
            if np.count_nonzero(freedom) < 2:
                continue
            precision = (weights * seen).sum(0) + self.variance / between
            self.effects = (weights * rest).sum(0) / precision
            self.effects -= self.effects.mean()
            self.doubt = self.variance / precision
            between = float((self.effects**2 + self.doubt).mean())

    def _drawn(self, row: Numbers, seen: npt.NDArray[np.bool_]) -> Numbers:
        """Return posterior draws of all seed scores, `[DRAWS, n]`; known scores stay fixed."""
        own = row[seen] - self.effects[seen]
        known = len(own)
        freedom = COMMON + known - 1
        squares = COMMON * self.variance + float(((own - own.mean()) ** 2).sum())
        draw = stream(0, "race")
        variance = squares / draw.chisquare(freedom, DRAWS)
        doubt = float(self.doubt[seen].sum()) / known**2
        mean = own.mean() + draw.standard_normal(DRAWS) * np.sqrt(variance / known + doubt)
        noise = draw.standard_normal((DRAWS, int((~seen).sum())))
        unseen = self.effects[~seen] + noise * np.sqrt(variance[:, None] + self.doubt[~seen])
        scores = np.repeat(row[None], DRAWS, 0)
        scores[:, ~seen] = np.clip(mean[:, None] + unseen, self.low, self.high)
        return scores

    def _tail(self, finals: Numbers, seen: npt.NDArray[np.bool_]) -> float:
        """Return the t-tail probability of reaching the best certain score, which no draw did."""
        from scipy.special import stdtr

        freedom = COMMON + seen.sum() - 1
        scale = float(finals.std()) * np.sqrt((freedom - 2) / freedom)
        return float(stdtr(freedom, (finals.mean() - self.certain) / max(scale, 1e-12)))

    def _finals(self, scores: Numbers) -> Numbers:
        k = self.top.k or scores.shape[1]
        best = np.partition(scores, -k, axis=1)[:, -k:] if k < scores.shape[1] else scores
        return np.asarray(best.mean(1))
