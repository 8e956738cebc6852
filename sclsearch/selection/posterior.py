"""What a configuration may still come to by the seeds that it lacks.

A score on a seed is taken as the configuration's mean, plus what that seed does to every
configuration, plus noise. The mean is not shrunk towards those of others: a sampler that learns
would make that unfair to late ones. What seeds do is estimated by expectation-maximisation in the
two-way table with its gaps. The noise of each configuration has a variance of its own, shrunk
towards a common one, so that a prediction has Student's tails. Whatever no score can be, the exact
bounds of the rule say.
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
"""Degrees of freedom of the common variance in that of one configuration."""
USUAL_DEVIATION = 0.015
"""Share of the metric's range by which seeds of one configuration differ when little is known."""
USUAL = 1.0
"""Degrees of freedom of that: equal scores so far do not promise equal ones."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a configuration that lacks seeds may come to.

    Attributes:
        better: Probability, by the model, that its score reaches the best that is certain by now.
        expected: Its expected score, by its own seeds: of one that waits, as its seeds were bad, a
            little low.
    """

    better: float
    expected: float


def risk_of(forecasts: Iterable[Forecast | None]) -> float:
    """Returns the probability, at the most, that any of them would win; None is any chance."""
    return min(1.0, sum(1.0 if forecast is None else forecast.better for forecast in forecasts))


class ScorePosterior:
    """The chances of the configurations of a search.

    Args:
        top: How validation scores of the seeds rank a configuration.
        scores: Of each configuration and seed, `[C, n]`; NaN where it is not known yet.
        low: The least that a score can be.
        high: The most.
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
        """Returns the chance of a configuration, of which one seed's score must be known."""
        row, seen = self.scores[number], self.seen[number]
        finals = self._finals(self._drawn(row, seen))
        expected = float(finals.mean())
        if self.top.value(np.where(seen, row, self.high).tolist()) < self.certain:
            return Forecast(0.0, expected)
        # One more than were counted: what was not drawn is not impossible.
        reached = int((finals.round(DECIMALS) >= self.certain).sum())
        better = (reached + 1) / (len(finals) + 1)
        return Forecast(better if reached else min(better, self._tail(finals, seen)), expected)

    def _fit(self) -> None:
        """Estimates what each seed does to all configurations, and the common variance."""
        seen, scores = self.seen, np.nan_to_num(self.scores)
        counts = seen.sum(1, keepdims=True)
        freedom = np.maximum(counts - 1, 0)
        usual = (USUAL_DEVIATION * (self.high - self.low)) ** 2
        self.effects, self.doubt = np.zeros(seen.shape[1]), np.zeros(seen.shape[1])
        # From a wide beginning effects are found that a narrow one takes for noise of its rows.
        self.variance = between = usual + float(np.nanvar(self.scores))
        for _ in range(ITERATIONS):
            means = (scores - seen * self.effects).sum(1, keepdims=True) / np.maximum(counts, 1)
            rest = seen * (scores - means)
            squares = ((rest - seen * self.effects) ** 2 + seen * self.doubt).sum(1, keepdims=True)
            # A configuration whose seeds differ more than those of others tells less.
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
        """Returns scores of all seeds, `[DRAWS, n]`: the known ones, and others as they may be."""
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
        """Returns the probability of the best that is certain, beyond all draws."""
        from scipy.special import stdtr

        freedom = COMMON + seen.sum() - 1
        scale = float(finals.std()) * np.sqrt((freedom - 2) / freedom)
        return float(stdtr(freedom, (finals.mean() - self.certain) / max(scale, 1e-12)))

    def _finals(self, scores: Numbers) -> Numbers:
        k = self.top.k or scores.shape[1]
        best = np.partition(scores, -k, axis=1)[:, -k:] if k < scores.shape[1] else scores
        return np.asarray(best.mean(1))
