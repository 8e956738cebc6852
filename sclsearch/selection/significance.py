"""Significance tests of two configurations on paired replicates.

- Test: sign-flip permutation test of the mean difference, whose inversion gives the confidence
  interval; Student's t interval for three to five pairs. Wilcoxon's p, which papers print.
- Interval of two searches: percentile bootstrap over configurations and replicates.
- Adjustment of several p-values: Holm (1979, Scandinavian Journal of Statistics 6:65-70).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.selection.rules import DECIMALS, Top, mean_std

Numbers = npt.NDArray[np.float64]
Ends = tuple[float, float]

RESAMPLES = 100_000
SEARCH_RESAMPLES = 2_000
FEWEST_PAIRS = 3
"""Smallest number of pairs with an interval; that of two pairs says next to nothing."""
MOST_ENUMERATED = 12
"""Largest number of pairs whose signs are all enumerated; more pairs get random signs."""
BISECTIONS = 50
ROUNDING = 1e-12
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """Paired comparison of the scores of two configurations, a and b.

    A pair is a replicate with both scores, or the training subset of such replicates.
    """

    n: int  # pairs
    n_missing: int  # replicates without a pair, because at least one seed run failed
    n_equal: int  # pairs with equal scores, which no test can use
    difference: float  # mean of `a - b`
    std: float | None  # sample standard deviation of `a - b`; None for one pair
    interval: Ends | None  # 1 - alpha; None for fewer than three pairs, or equal differences
    p: float  # two-sided, of the sign-flip permutation test of the mean difference
    p_wilcoxon: float  # two-sided, of Wilcoxon's signed-rank test
    for_rows: bool = False  # whether the interval is also for other test rows

    @property
    def reliable(self) -> bool:
        """True if 0 is outside the interval."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    def reversed(self) -> "Comparison":
        """Return the comparison of `b - a`."""
        ends = None if self.interval is None else (-self.interval[1], -self.interval[0])
        return replace(self, difference=-self.difference, interval=ends)


def compare(
    a: Sequence[float | None],
    b: Sequence[float | None],
    subsets: Sequence[Hashable] = (),
    *,
    largest: float = math.inf,
    alpha: float = ALPHA,
) -> Comparison:
    """Return the paired comparison of two configurations on the same replicates.

    CMLM's protocol trains several seeds on each of several subsets. Seeds of one subset are not
    independent, so their mean difference forms one pair. `subsets` identifies the training subset
    of each replicate; if it is empty, or all are the same, each replicate is a pair.

    The order of the replicates does not matter. The comparison ignores failed seeds, whose score is
    None; without a pair it raises SclsearchError. The ranking counts them as the worst score
    instead; here such a pair would measure the metric's minimum rather than the two configurations.
    No interval exceeds `largest`, the largest difference of two scores of the metric.
    The interval has the differences that the test does not reject at `alpha`; 0.05 / k makes the
    intervals of k comparisons hold together (Bonferroni).
    """
    if len(set(subsets)) < 2:
        subsets = range(len(a))
    of_subset: dict[Hashable, list[float]] = {}
    n_missing = 0
    for x, y, subset in zip(a, b, subsets, strict=True):
        if x is None or y is None:
            n_missing += 1
        else:
            of_subset.setdefault(subset, []).append(x - y)
    if not of_subset:
        raise SclsearchError(
            f"comparison: none of {len(a)} replicates finished in both configurations. "
            "See why their seeds failed, or train more."
        )
    differences = np.round([math.fsum(own) / len(own) for own in of_subset.values()], DECIMALS)
    mean, std = mean_std(differences.tolist())
    p, interval = _permutation_test(differences, largest, alpha)
    return Comparison(
        n=len(differences),
        n_missing=n_missing,
        n_equal=int(np.sum(differences == 0)),
        difference=mean,
        std=std,
        interval=interval,
        p=p,
        p_wilcoxon=_wilcoxon(differences),
    )


def smallest_p(n: int) -> float:
    """Return the smallest p-value that the tests of n unequal pairs can reach.

    It is 2 / 2^n, where all differences have the same sign; many pairs are limited by the number of
    random signs. Five pairs cannot reach 0.05 (0.0625); six pairs can.
    """
    return min(1.0, max(math.ldexp(2.0, -n), 1 / (RESAMPLES + 1)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values in the given order (Holm, 1979).

    Rejecting all adjusted values up to alpha bounds the family-wise error rate by alpha, for any
    dependence between the tests.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    floor = 0.0
    for rank, place in enumerate(order):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = floor
    return adjusted


@dataclass(frozen=True, slots=True)
class SearchScores:
    """Scores of the configurations of one search, `[configurations, replicates]`.

    Ties go to the first configuration.
    """

    validation: Numbers  # the metric's minimum for failed seeds
    test: Numbers  # NaN for failed seeds
    trained: npt.NDArray[np.bool_]  # False where a race skipped the seed run
    top: Top

    def filled(self, found: Numbers) -> Numbers:
        """Return the scores with estimates of the seed runs that a race skipped.

        An estimate is the mean of finished configurations on that seed plus the configuration's
        mean difference from them on its seeds.
        """
        scores = np.ma.masked_invalid(found)
        typical = scores[self.trained.all(axis=1)].mean(axis=0)
        estimated = typical + (scores - typical).mean(axis=1)[:, None]
        return np.where(self.trained, found, estimated.filled(np.nan))

    def resampled(self, replicates: npt.NDArray[np.int64], draw: np.random.Generator) -> Numbers:
        """Return the test scores of each resample's winner, `[resamples, replicates]`."""
        validation, test = self.filled(self.validation), self.filled(self.test)
        count = len(replicates), len(validation)
        # Earlier rows first: ties go to the first row.
        rows = np.sort(draw.integers(len(validation), size=count), axis=1)
        means = [-np.sort(-row[replicates])[:, : self.top.k].mean(axis=1) for row in validation]
        scores = np.round(means, DECIMALS).T  # [resamples, configurations], as `Top.value`
        best = np.take_along_axis(scores, rows, axis=1).argmax(axis=1)
        winners = np.take_along_axis(rows, best[:, None], axis=1)
        return np.asarray(test[winners, replicates])


def search_interval(
    comparison: Comparison, a: SearchScores, b: SearchScores, subsets: Sequence[Hashable]
) -> tuple[float, float] | None:
    """Return the 95 % interval of two searches' difference, at least as wide as the winners' one.

    Each resample of a percentile bootstrap draws configurations of both searches and the shared
    replicates by subset, and chooses both winners by validation score anew. The result is None for
    a search of one configuration, or for fewer than three pairs.
    """
    names = list(subsets) if len(set(subsets)) > 1 else list(range(len(subsets)))
    groups = [[n for n, one in enumerate(names) if one == name] for name in dict.fromkeys(names)]
    if min(len(a.test), len(b.test)) < 2 or min(len(groups), comparison.n) < FEWEST_PAIRS:
        return None
    draw = stream(0, "search interval")
    members = np.array([np.resize(group, max(map(len, groups))) for group in groups])
    drawn = draw.integers(len(groups), size=(SEARCH_RESAMPLES, len(groups)))
    replicates = members[drawn].reshape(SEARCH_RESAMPLES, -1)
    differences = a.resampled(replicates, draw) - b.resampled(replicates, draw)
    means = np.ma.masked_invalid(differences).mean(axis=1).compressed()
    low, high = np.quantile(means, [0.025, 0.975]).tolist()
    within = comparison.interval or (low, high)
    return None if low == high else (min(low, within[0]), max(high, within[1]))


def in_points(difference: float) -> str:
    """Return a share of 1 as text in hundredths, for example `1.4` or `under 0.1`."""
    points = 100 * difference
    return f"{points:.1f}" if points >= 0.05 else "under 0.1"


def signed_points(difference: float) -> str:
    """Return a share of 1 as text in hundredths with its sign; only 0 is printed as 0."""
    difference = round(difference, DECIMALS - 3)  # of two means that are equal but for rounding
    text = f"{100 * difference:+.1f}"
    return f"{100 * difference:+.1g}" if difference and float(text) == 0 else text


def _sign_flips(n: int) -> Numbers:
    """Return signs of the differences, `[patterns, n]`, first the observed ones.

    All patterns of up to 12 pairs, else random ones with a fixed seed.
    """
    if n <= MOST_ENUMERATED:
        flipped = np.arange(2**n)[:, None] >> np.arange(n) & 1
    else:
        drawn = stream(0, "comparison").integers(2, size=(RESAMPLES, n))
        flipped = np.concatenate([np.zeros((1, n), np.int64), drawn])
    return 1.0 - 2.0 * flipped.astype(np.float64)


def _permutation_test(
    differences: Numbers, largest: float, alpha: float
) -> tuple[float, Ends | None]:
    """Return the two-sided p-value of the sign-flip test of the mean, and its 1 - alpha interval.

    The null hypothesis is that the differences are symmetric around 0. The interval has the means
    that the test does not reject at alpha. A test of few pairs rejects none, so they get Student's
    t interval, cut at the `largest` possible difference. Two pairs or equal differences
    have no interval.
    """
    n, mean = len(differences), float(differences.mean())
    ordered = differences[np.argsort(np.abs(differences))]  # independent of the replicates' order
    signs = _sign_flips(n)
    sums, counts = signs @ ordered, signs.sum(axis=1)

    def p_value(center: float) -> float:
        totals = np.abs(sums - center * counts)
        return float(np.mean(totals >= totals[0] - ROUNDING))

    def end(outside: float) -> float:
        inside = mean
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if p_value(middle) <= alpha else (middle, outside)
        return inside

    if n < FEWEST_PAIRS or not np.ptp(differences):
        return p_value(0.0), None
    if smallest_p(n) > alpha:
        from scipy.special import stdtrit

        half = float(stdtrit(n - 1, 1 - alpha / 2) * differences.std(ddof=1)) / math.sqrt(n)
        return p_value(0.0), (max(mean - half, -largest), min(mean + half, largest))
    return p_value(0.0), (end(float(differences.min())), end(float(differences.max())))


def _wilcoxon(differences: Numbers) -> float:
    """Return the exact two-sided p-value of Wilcoxon's signed-rank test.

    The test ignores differences of zero, as Wilcoxon did. Equal absolute differences share their
    mean rank. The null distribution over all signs uses these ranks, so it is exact with ties; the
    usual tables are not. Ties are common on validation splits of a few hundred rows.
    """
    unequal = differences[differences != 0]
    _, place, counts = np.unique(np.abs(unequal), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[place]  # doubled mean ranks are integers
    probabilities = np.ones(1)  # under the null hypothesis, of each sum of positive ranks
    for rank in doubled:
        probabilities = (np.pad(probabilities, (0, rank)) + np.pad(probabilities, (rank, 0))) / 2
    positive = int(doubled[unequal > 0].sum())
    tail = min(probabilities[: positive + 1].sum(), probabilities[positive:].sum())
    return min(1.0, 2 * float(tail))
