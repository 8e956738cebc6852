"""Posterior of the configurations' final scores, given the seeds observed so far.

Let x[c, s] be the score of configuration c with seed s. Two models predict a score that is missing:

    additive   x[c, s] = m[c] + b[s] + e[c, s]
    paired     x[c, s] = m[c] + r (x[l, s] - mean of x[l]) + e[c, s]

b[s] is the effect of a seed on all configurations, l the best complete configuration, and r, from 0
to 1, the regression of the other good configurations on it. Seeds that are hard for one good
configuration are hard for the others, more than an additive effect allows; configurations at chance
share no effect at all. Once there is a complete configuration, the posterior is the mean of both
models: each alone states too small a risk for some searches, see `benchmarks/race.md`.

- m[c] has a normal prior, whose moments come from all configurations (empirical Bayes).
- Expectation-maximization estimates b from the two-way table with missing cells.
- Each configuration has its own noise variance, shrunk towards a common variance. Predictions
  therefore have the tails of Student's t distribution.
- Scores outside the selection rule's exact bounds get probability 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from sclsearch.randomness import stream
from sclsearch.selection.rules import DECIMALS, Top

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

DRAWS = 2**9
"""Most draws of a model for each configuration that may win, if these are few."""
FEW_DRAWS = 2**6
"""Draws of a model for each of the others."""
CELLS = 2**17
"""Most scores that a model draws, if many configurations may win."""
ITERATIONS = 30
TOLERANCE = 1e-4
COMMON = 4.0
"""Degrees of freedom with which the common variance enters a configuration's variance."""
USUAL_DEVIATION = 0.015
"""Prior standard deviation over a configuration's seeds, as a share of the metric's range."""
USUAL = 1.0
"""Degrees of freedom of that prior, so that equal scores so far do not imply zero variance."""
NEAR = 0.5
"""Share of the configurations, the best ones, that determine r and the variance beside it."""
NEGLIGIBLE = 1e-4
"""Probability below which an upper bound replaces the draws."""
TINY = np.finfo(np.float64).tiny
"""Least probability of what is possible."""
ROUNDING = 1e-9
"""Tolerance for sums of scores that should be equal."""
COUNTED = 16
"""Draws that must reach a score before their number gives its probability."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted final score of a configuration with missing seeds.

    Attributes:
        better: Model probability that the score reaches the best score that is already certain.
        expected: Expected score.
    """

    better: float
    expected: float


@dataclass(frozen=True, slots=True)
class _Prediction:
    """Distribution of missing scores: centre[c] + offset[s] + noise.

    `centre`, its variance, `noise` (a variance) and `freedom` are `[C]`; `offset` and its variance
    are `[n]`. Divided by its standard deviation, an error has Student's t distribution.
    """

    centre: Numbers
    centre_variance: Numbers
    noise: Numbers
    freedom: Numbers
    offset: Numbers
    offset_variance: Numbers

    def mean(self, scores: Numbers, seen: Flags) -> tuple[Numbers, Numbers]:
        """Return location and scale of the mean over all seeds, each `[C]`."""
        seeds = seen.shape[1]
        missing = (~seen).sum(1)
        total = scores.sum(1) + missing * self.centre + ~seen @ self.offset
        variance = missing**2 * self.centre_variance + missing * self.noise
        return total / seeds, np.sqrt(variance + ~seen @ self.offset_variance) / seeds


class ScorePosterior:
    """Posterior of the final scores of all configurations of a search.

    Args:
        top: Rule that combines the validation scores of the seeds into a configuration's score.
        scores: Score of each configuration and seed, `[C, n]`; NaN where it is unknown.
        low: Lowest possible score.
        high: Highest possible score.
        widening: Factor on the standard deviations of the models, if predictions were worse than
            the models say.
    """

    def __init__(
        self,
        top: Top,
        scores: Sequence[Sequence[float]] | Numbers,
        low: float,
        high: float,
        widening: float = 1.0,
    ) -> None:
        self.top, self.low, self.high, self.widening = top, low, high, widening
        known = np.asarray(scores, dtype=np.float64)
        self.seen = ~np.isnan(known)
        self.scores = np.where(self.seen, known, 0.0)
        self.counts = self.seen.sum(1)
        self.complete = self.counts == known.shape[1]
        least = self._final(np.where(self.seen, known, low))
        self.certain = float(least.max(initial=low))
        self._assured = least >= self.certain

    def forecast(self, number: int) -> Forecast:
        """Return the forecast of a configuration that has at least one known seed score."""
        return Forecast(float(self.better[number]), float(self.expected[number]))

    @cached_property
    def better(self) -> Numbers:
        """Probability that each configuration reaches the best certain score; 0 if complete.

        A configuration that only reaches it may win by its validation loss.
        """
        # A probability may underflow, but only what is impossible has probability 0.
        better = np.maximum(self._of_likely[0], TINY)
        reach = self._final(np.where(self.seen, self.scores, self.high))
        better[(reach < self.certain) | self.complete] = 0.0
        return better

    @cached_property
    def expected(self) -> Numbers:
        """Expected final score of each configuration; the score itself if complete."""
        expected = self._of_likely[1].copy()
        others = np.flatnonzero(np.isnan(expected))
        if len(others):
            drawn = [self._drawn(p, others, FEW_DRAWS).mean(1) for p in self._predictions]
            expected[others] = np.mean(drawn, 0)
        return expected

    @cached_property
    def leader(self) -> int:
        """Configuration with known scores that has the highest expected final score.

        It is one that may win: a configuration that hardly reaches the best certain score expects
        less than the one that has this score.
        """
        expected = np.where(self.counts > 0, self._of_likely[1], np.nan)
        return int(np.nanargmax(expected))

    def surprise(self, earlier: "ScorePosterior", number: int) -> float:
        """Return the normal quantile at which a complete configuration's mean was predicted to be.

        `earlier` is the posterior without some of its seeds. If the models hold, the quantiles of
        many configurations have a standard normal distribution.
        """
        from scipy.special import ndtri, stdtr

        mean = float(self.scores[number].mean())
        below = [
            float(stdtr(prediction.freedom[number], (mean - location[number]) / scale[number]))
            for prediction in earlier._predictions
            for location, scale in [prediction.mean(earlier.scores, earlier.seen)]
        ]
        return float(ndtri(np.clip(np.mean(below), 1e-9, 1 - 1e-9)))

    @cached_property
    def _of_likely(self) -> tuple[Numbers, Numbers]:
        """Return `better` and `expected`, the latter NaN if a configuration will hardly win."""
        seeds = self.scores.shape[1]
        if self.top.k is None or self.top.k == seeds:
            better, expected = self._forecasts_of_means()
        else:
            better, expected = self._forecasts_of_top()
        expected[self.complete] = self._final(self.scores[self.complete])
        return better, expected

    def _forecasts_of_means(self) -> tuple[Numbers, Numbers]:
        from scipy.special import stdtr

        means = [p.mean(self.scores, self.seen) for p in self._predictions]
        better = [
            stdtr(p.freedom, (location - self.certain) / np.maximum(scale, 1e-12))
            for p, (location, scale) in zip(self._predictions, means, strict=True)
        ]
        return np.mean(better, 0), np.mean([location for location, _ in means], 0)

    def _forecasts_of_top(self) -> tuple[Numbers, Numbers]:
        numbers = np.flatnonzero(~self.complete)
        better, expected = np.zeros(len(self.scores)), np.full(len(self.scores), np.nan)
        if not len(numbers):
            return better, expected
        bounds = np.mean([self._bound(p) for p in self._predictions], 0)
        better[numbers] = bounds[numbers]
        likely = numbers[(bounds > NEGLIGIBLE)[numbers] | self._assured[numbers]]
        if len(likely):
            draws = CELLS // (len(likely) * self.scores.shape[1])
            draws = min(max(draws, FEW_DRAWS), DRAWS)
            finals = [self._drawn(p, likely, draws) for p in self._predictions]
            expected[likely] = np.mean([one.mean(1) for one in finals], 0)
            better[likely] = np.mean([self._reaching(one) for one in finals], 0)
        return better, expected

    def _reaching(self, finals: Numbers) -> Numbers:
        """Return the probability that drawn final scores, `[numbers, draws]`, suffice to win."""
        enough = finals >= self.certain
        # Few or no draws reach the score of a leader far away: extrapolate from the highest tenth.
        tenth = finals.shape[1] // 10
        highest = np.partition(finals, -tenth, axis=1)[:, -tenth:]
        edge = highest.min(1)
        excess = np.maximum((highest - edge[:, None]).mean(1), 1e-12)
        tail = 0.1 * np.exp(-np.maximum(self.certain - edge, 0) / excess)
        few = enough.sum(1) < min(COUNTED, tenth)
        return np.asarray(np.where(few, tail, enough.mean(1)))

    def _bound(self, prediction: _Prediction) -> Numbers:
        """Return an upper bound of `better`: the best missing seed must reach a certain score."""
        from scipy.special import stdtr

        needed = self._needed[:, None] - prediction.centre[:, None] - prediction.offset
        variance = (prediction.centre_variance + prediction.noise)[:, None]
        scale = np.sqrt(variance + prediction.offset_variance)
        each = stdtr(prediction.freedom[:, None], -needed / np.maximum(scale, 1e-12))
        return np.asarray(np.minimum((each * ~self.seen).sum(1), 1.0))

    @cached_property
    def _needed(self) -> Numbers:
        """Score that the best missing seed of each configuration must reach at least to win.

        If all missing seeds had this score m, the final score would be the best certain one. It is
        the highest mean of j known scores and k - j times m, whatever j is.
        """
        k, missing = self.top.k or self.scores.shape[1], (~self.seen).sum(1)
        known = -np.sort(-np.where(self.seen, self.scores, self.low), axis=1)
        needed = np.full(len(self.scores), self.high)
        for j in range(k + 1):
            rest = k * self.certain - known[:, :j].sum(1)
            each = rest / (k - j) if j < k else np.where(rest <= 0, self.low, self.high)
            possible = (self.counts >= j) & (missing >= k - j)
            needed = np.where(possible, np.minimum(needed, each), needed)
        return needed.clip(self.low, self.high) - ROUNDING

    def _drawn(
        self, prediction: _Prediction, numbers: npt.NDArray[np.int64], draws: int
    ) -> Numbers:
        """Return draws of the final scores of some configurations, `[numbers, draws]`."""
        seeds = self.scores.shape[1]
        centres, noise = _standard_draws(seeds, draws)
        kinds, kind = np.unique(self.counts[numbers], return_inverse=True)
        heavy = np.stack([_heavy(int(count), draws) for count in kinds])[kind]  # [numbers, draws]
        centre = prediction.centre[numbers, None] + heavy * centres * np.sqrt(
            prediction.centre_variance[numbers, None]
        )
        own = prediction.noise[numbers, None] * heavy**2
        spread = np.sqrt(own)
        best = _Best(self.top.k or seeds, centre.shape)
        for seed in range(seeds):  # arrays of all seeds would not fit into the processor's cache
            if prediction.offset_variance[seed]:
                spread = np.sqrt(own + prediction.offset_variance[seed])
            scores = spread * noise[:, seed]
            scores += centre
            scores += prediction.offset[seed]
            np.clip(scores, self.low, self.high, out=scores)
            seen = self.seen[numbers, seed]
            scores[seen] = self.scores[numbers[seen], seed, None]
            best.add(scores)
        return best.mean()

    def _final(self, scores: Numbers) -> Numbers:
        """Return the final scores of `[..., n]` scores of all seeds."""
        k = self.top.k or scores.shape[-1]
        best = np.partition(scores, -k, axis=-1)[..., -k:] if k < scores.shape[-1] else scores
        return np.asarray(best.mean(-1).round(DECIMALS))

    @cached_property
    def _predictions(self) -> list[_Prediction]:
        additive = self._additive()
        if not self.complete.any():
            return [additive]
        finals = self._final(self.scores)
        return [additive, self._paired(int(np.argmax(np.where(self.complete, finals, -np.inf))))]

    def _additive(self) -> _Prediction:
        effects, doubt, common = self._effects()
        differences = np.where(self.seen, self.scores - effects, 0.0)
        return self._predicted(differences, common, effects, doubt, self.counts > 0)

    def _paired(self, leader: int) -> _Prediction:
        own = self.scores[leader] - self.scores[leader].mean()
        centred = np.where(self.seen, own, 0.0)
        means, _ = self._moments(self.scores)
        order = np.argsort(-means, kind="stable")[: max(8, int(NEAR * len(means)))]
        near = order[(order != leader) & (self.counts[order] > 1)]
        slope = self._slope(centred[near], near)
        differences = np.where(self.seen, self.scores - slope * own, 0.0)
        _, squares = self._moments(differences)
        freedom, usual = self.counts[near] - 1, self._usual
        common = 4 * usual
        for _ in range(ITERATIONS // 2):
            weights = (COMMON + freedom) / (COMMON + squares[near] / common)
            total = USUAL * usual + float((weights * squares[near]).sum())
            common = total / (USUAL + float(freedom.sum()))
        others = (np.arange(len(means)) != leader) & (self.counts > 0)
        return self._predicted(differences, common, slope * own, np.zeros(len(own)), others)

    def _slope(self, own: Numbers, near: npt.NDArray[np.int64]) -> float:
        """Return the regression of the near configurations' seeds on those of the leader."""
        seen = self.seen[near]
        counts = np.maximum(seen.sum(1, keepdims=True), 1)
        x = seen * (own - own.sum(1, keepdims=True) / counts)
        y = seen * (self.scores[near] - self.scores[near].sum(1, keepdims=True) / counts)
        squares = float((x * x).sum())
        return min(max(float((x * y).sum()) / max(squares, 1e-12), 0.0), 1.0)

    def _predicted(
        self,
        differences: Numbers,
        common: float,
        offset: Numbers,
        doubt: Numbers,
        population: Flags,
    ) -> _Prediction:
        """Return the prediction from `[C, n]` differences to the offset, 0 where unknown."""
        counts = np.maximum(self.counts, 1)
        means, squares = self._moments(differences)
        freedom = COMMON + np.maximum(self.counts, 1) - 1
        noise = (COMMON * common + squares) / freedom * self.widening**2
        variance = noise / counts + self.seen @ doubt / counts**2
        if np.count_nonzero(population) > 1:
            own = means[population]
            within = float(variance[population].mean())
            between = max(float(own.var(ddof=1)) - within, 0.05 * within)
            both = 1 / (1 / between + 1 / variance)
            means = both * (float(own.mean()) / between + means / variance)
            variance = both
        return _Prediction(means, variance, noise, freedom, offset, doubt)

    def _moments(self, differences: Numbers) -> tuple[Numbers, Numbers]:
        """Return the mean and the sum of squares around it of each configuration's seeds."""
        means = differences.sum(1) / np.maximum(self.counts, 1)
        return means, (self.seen * (differences - means[:, None]) ** 2).sum(1)

    @property
    def _usual(self) -> float:
        return (USUAL_DEVIATION * (self.high - self.low)) ** 2

    def _effects(self) -> tuple[Numbers, Numbers, float]:
        """Return the effect of each seed, its variance, and the common variance of the noise."""
        seen, counts = self.seen.astype(np.float64), np.maximum(self.counts, 1)
        freedom = np.maximum(self.counts - 1, 0)
        degrees, several = float(freedom.sum()) + USUAL, np.count_nonzero(freedom) > 1
        effects, doubt = np.zeros(seen.shape[1]), np.zeros(seen.shape[1])
        # Start with a wide prior: a narrow start would absorb the seed effects into the noise.
        known = self.scores[self.seen]
        common = between = self._usual + (float(known.var()) if known.size else 0.0)
        means, around = self._moments(self.scores)
        own = seen * (self.scores - means[:, None])  # [C, n]; each row adds up to 0
        for _ in range(ITERATIONS):
            # Sum of squares of own - effects around its mean, by products of matrix and vector.
            shifts = seen @ effects / counts
            squares = around - 2 * (own @ effects) + seen @ (effects**2 + doubt)
            squares = np.maximum(squares - counts * shifts**2, 0)
            # A configuration with more spread over its seeds gets a lower weight.
            weights = (COMMON + freedom) / (COMMON + squares / common)
            before, common = common, (float(weights @ squares) + USUAL * self._usual) / degrees
            if not several:
                continue
            precision = weights @ seen + common / between
            effects = (weights @ own + (weights * shifts) @ seen) / precision
            effects -= effects.mean()
            doubt = common / precision
            between = float((effects**2 + doubt).mean())
            if abs(common - before) < TOLERANCE * common:
                break
        return effects, doubt, common


class _Best:
    """Mean of the k highest of several arrays, element by element.

    Args:
        k: Number of arrays that count.
        shape: Shape of the arrays.
    """

    def __init__(self, k: int, shape: tuple[int, ...]) -> None:
        self.highest = [np.full(shape, -np.inf) for _ in range(k)]

    def add(self, values: Numbers) -> None:
        """Add an array; its content is lost."""
        for highest in self.highest:
            lower = np.minimum(highest, values)
            np.maximum(highest, values, out=highest)
            values = lower

    def mean(self) -> Numbers:
        """Return the mean of the k highest values of each element."""
        total = self.highest[0].copy()
        for highest in self.highest[1:]:
            total += highest
        return np.asarray((total / len(self.highest)).round(DECIMALS))


@cache
def _standard_draws(seeds: int, draws: int) -> tuple[Numbers, Numbers]:
    """Return standard normal draws, `[draws]` and `[draws, seeds]`, the same at every call."""
    draw = stream(0, "race")
    return draw.standard_normal(draws), draw.standard_normal((draws, seeds))


@cache
def _heavy(count: int, draws: int) -> Numbers:
    """Return draws of the factor that gives normal draws the tails of t, with `count` seeds."""
    freedom = COMMON + max(count, 1) - 1
    return np.asarray(np.sqrt(freedom / stream(count, "race").chisquare(freedom, draws)))
