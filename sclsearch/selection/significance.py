"""Significance tests of two configurations on paired replicates, and their statistical power.

- Confidence interval: inverted sign-flip permutation test, by subset means (Hartigan, 1969,
  Journal of the American Statistical Association 64:1303-1317); Student's t interval for three to
  five pairs.
- Interval of two searches: percentile bootstrap over configurations and replicates.
- Adjustment of several p-values: Holm (1979, Scandinavian Journal of Statistics 6:65-70).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.selection.rules import DECIMALS, Top, mean_std

Numbers = npt.NDArray[np.float64]

RESAMPLES = 10_000
SEARCH_RESAMPLES = 2_000
FEWEST_PAIRS = 3
"""Smallest number of pairs with an interval; that of two pairs says next to nothing."""
FEWEST_RESAMPLED = 6
"""Smallest number of pairs for which a permutation test can reach p = 0.05."""
MOST_ENUMERATED = 14
"""Largest number of pairs whose subsets are all enumerated; more pairs get random subsets."""
ALPHA = 0.05
POWER = 0.8


@dataclass(frozen=True, slots=True)
class Comparison:
    """Paired comparison of the scores of two configurations, a and b.

    Attributes:
        n: Number of pairs. A pair is a replicate with both scores, or the training subset of such
            replicates.
        n_missing: Number of replicates without a pair, because at least one seed run failed.
        n_equal: Number of pairs with equal scores, which the test ignores.
        difference: Mean of `a - b`.
        std: Sample standard deviation of `a - b`; None for one pair.
        interval: 95 % interval of the mean difference; None for fewer than three pairs, and if all
            differences are equal.
        p: Two-sided p-value of Wilcoxon's signed-rank test.
    """

    n: int
    n_missing: int
    n_equal: int
    difference: float
    std: float | None
    interval: tuple[float, float] | None
    p: float


def compare(
    a: Sequence[float | None],
    b: Sequence[float | None],
    subsets: Sequence[Hashable] = (),
    *,
    largest: float = math.inf,
) -> Comparison:
    """Return the paired comparison of two configurations on the same replicates.

    CMLM's protocol trains several seeds on each of several subsets. Seeds of one subset are not
    independent, so their mean difference forms one pair.

    The order of the replicates does not matter. `compare(b, a)` has the opposite signs and the
    same p. The comparison ignores failed seeds. The ranking counts them as the worst score instead;
    here such a pair would measure the metric's minimum rather than the two configurations.

    Args:
        a: Score of each replicate; None for a failed seed.
        b: Scores of the other configuration on the same replicates, in the same order.
        subsets: Identifier of each replicate's training subset. If it is empty, or all subsets are
            the same, each replicate is a pair.
        largest: Largest difference of two scores of the metric; no interval exceeds it.

    Raises:
        SclsearchError: No replicate has both scores.
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
    return Comparison(
        n=len(differences),
        n_missing=n_missing,
        n_equal=int(np.sum(differences == 0)),
        difference=mean,
        std=std,
        interval=_interval(differences, mean, std or 0.0, largest),
        p=_wilcoxon(differences),
    )


def smallest_p(n: int) -> float:
    """Return the smallest p-value that a Wilcoxon signed-rank test of n pairs can reach.

    It is 2 / 2^n, where all differences have the same sign, and 1 without a pair. Five pairs
    cannot reach 0.05 (0.0625); six pairs can (0.03125).
    """
    return min(1.0, math.ldexp(2.0, -n))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values in the given order (Holm, 1979).

    The smallest of m p-values is multiplied by m, the next by m - 1, and so on. Adjusted values
    keep the order of the p-values. Rejecting all adjusted values up to alpha bounds the family-wise
    error rate by alpha, for any dependence between the tests.
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
    """Scores of the configurations of one search.

    Attributes:
        validation: Validation scores, `[configurations, replicates]`; failed seeds have the
            metric's minimum. Of equal configurations the first one is the winner.
        test: Test scores in the same order; NaN for failed seeds.
        top: Rule that scores a configuration.
    """

    validation: Numbers
    test: Numbers
    top: Top


def search_scores(
    validation: Numbers, test: Numbers, trained: npt.NDArray[np.bool_], top: Top
) -> SearchScores:
    """Return the scores of a search, with estimates for the seed runs that a race skipped.

    An estimate is the mean score of the finished configurations on that seed, plus the
    configuration's mean difference from them on its own seeds. `trained` tells which seed runs were
    trained, `[configurations, replicates]`; at least one configuration on all seeds. `SearchScores`
    describes the other arguments.
    """

    def filled(found: Numbers) -> Numbers:
        scores = np.ma.masked_invalid(found)
        typical = scores[trained.all(axis=1)].mean(axis=0)
        estimated = typical + (scores - typical).mean(axis=1)[:, None]
        return np.where(trained, found, estimated.filled(np.nan))

    return SearchScores(filled(validation), filled(test), top)


def with_searches(
    comparison: Comparison, a: SearchScores, b: SearchScores, subsets: Sequence[Hashable]
) -> tuple[float, float] | None:
    """Return the 95 % interval of `search_interval`, widened to contain that of the winners."""
    found = search_interval(a, b, subsets)
    if found is None or comparison.n < FEWEST_PAIRS or found[0] == found[1]:
        return None
    if comparison.interval is None:
        return found
    return min(found[0], comparison.interval[0]), max(found[1], comparison.interval[1])


def search_interval(
    a: SearchScores, b: SearchScores, subsets: Sequence[Hashable] = ()
) -> tuple[float, float] | None:
    """Return the 95 % interval of the difference a - b between two searches' winners.

    Each resample draws the configurations of both searches and their shared replicates, with
    replacement. It takes each winner by validation score, and the paired difference of their test
    scores. The interval therefore includes that another search could find another winner.

    Args:
        a: Scores of the first search.
        b: Scores of the other search, on the same replicates.
        subsets: Identifier of each replicate's training subset, as for `compare`.

    Returns:
        The interval. None if a search has one configuration only, or if there is one pair only.
    """
    identifiers = list(subsets) if len(set(subsets)) > 1 else list(range(a.test.shape[1]))
    groups = [
        [place for place, one in enumerate(identifiers) if one == subset]
        for subset in dict.fromkeys(identifiers)
    ]
    if min(len(a.test), len(b.test), len(groups)) < 2:
        return None
    draw = stream(0, "search interval")
    longest = max(map(len, groups))
    members = np.array([np.resize(group, longest) for group in groups])
    drawn = draw.integers(len(groups), size=(SEARCH_RESAMPLES, len(groups)))
    replicates = members[drawn].reshape(SEARCH_RESAMPLES, -1)
    differences = _winners_tests(a, replicates, draw) - _winners_tests(b, replicates, draw)
    sums, counts = np.nansum(differences, axis=1), np.sum(~np.isnan(differences), axis=1)
    low, high = np.quantile(sums[counts > 0] / counts[counts > 0], [0.025, 0.975])
    return float(low), float(high)


def _winners_tests(
    search: SearchScores, replicates: npt.NDArray[np.int64], draw: np.random.Generator
) -> Numbers:
    """Return the test scores of each resample's winner, `[resamples, replicates]`."""
    count = len(search.validation)
    places = np.arange(len(replicates))
    # Earlier rows first: ties go to the first row.
    configurations = np.sort(draw.integers(count, size=(len(replicates), count)), axis=1)
    means = [
        -np.sort(-row[replicates], axis=1)[:, : search.top.k].mean(axis=1)  # as `Top.value`
        for row in search.validation
    ]
    scores = np.round(means, DECIMALS)
    best = scores[configurations, places[:, None]].argmax(axis=1)
    winners = configurations[places, best]
    found: Numbers = search.test[winners[:, None], replicates]
    return found


def detectable(differences_std: float, n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the smallest true mean difference that Wilcoxon's signed-rank test of n pairs detects.

    The test is the exact two-sided test of `compare`, on normal differences.

    Args:
        differences_std: Standard deviation of the paired differences.
        n: Number of pairs.
        alpha: Probability of a false detection if there is no difference. For the first of m
            p-values that Holm adjusts it is the level divided by m.
        power: Probability of detecting the returned difference.

    Returns:
        The difference; infinity if `smallest_p(n)` is above alpha.
    """
    return math.inf if smallest_p(n) > alpha else differences_std * _shift(n, alpha, power)


@lru_cache
def _shift(n: int, alpha: float, power: float) -> float:
    """Return the detectable mean of normal differences with standard deviation 1.

    The sum of the positive ranks is the number of positive Walsh averages, the means of two
    differences. A sample shifted by d is therefore significant if its c-th largest Walsh average
    exceeds -d, where c is the critical value. The result is a quantile over simulated samples.
    """
    null = _rank_sums(np.arange(1, n + 1))
    tails = np.cumsum(null[::-1])[::-1]
    critical = int(np.argmax(2 * tails <= alpha * (1 + 1e-9)))
    first, second = np.triu_indices(n)
    draws = min(40_000, 5_000_000 // len(first))
    samples = stream(0, "power").standard_normal((draws, n))
    walsh = (samples[:, first] + samples[:, second]) / 2
    decisive = np.partition(walsh, len(first) - critical, axis=1)[:, len(first) - critical]
    return float(np.quantile(-decisive, power))


def in_points(difference: float) -> str:
    """Return a share of 1 as text in hundredths, for example `1.4` or `under 0.1`."""
    points = 100 * difference
    return f"{points:.1f}" if points >= 0.05 else "under 0.1"


def _interval(
    differences: Numbers, mean: float, std: float, largest: float
) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean difference; None for two pairs or equal differences.

    Few pairs get Student's t interval, cut at the `largest` possible difference. More pairs get the
    means that the sign-flip permutation test does not reject. The ends of this interval are order
    statistics of the means of all nonempty subsets of the differences. Its coverage is at least
    95 % for symmetric differences, except for the chance of random subsets;
    benchmarks/significance.md has its coverage on skewed ones.

    The random subsets of many pairs include the mirror image of each subset of the sorted
    differences. Negated differences therefore give the negated interval.
    """
    n = len(differences)
    if n < FEWEST_PAIRS or not np.ptp(differences):
        return None
    if n < FEWEST_RESAMPLED:
        from scipy.special import stdtrit

        half = float(stdtrit(n - 1, 0.975)) * std / math.sqrt(n)
        return max(mean - half, -largest), min(mean + half, largest)
    if n <= MOST_ENUMERATED:
        subsets = np.arange(1, 2**n)[:, None] >> np.arange(n) & 1
    else:
        drawn = stream(0, "comparison").integers(2, size=(RESAMPLES, n))
        subsets = np.concatenate([drawn, drawn[:, ::-1]])
        subsets = subsets[subsets.any(axis=1)]
    means = np.sort(subsets @ np.sort(differences) / subsets.sum(axis=1))
    outside = int(0.025 * (len(means) + 1))
    return float(means[outside - 1]), float(means[-outside])


def _wilcoxon(differences: Numbers) -> float:
    """Return the exact two-sided p-value of Wilcoxon's signed-rank test.

    The test ignores differences of zero, as Wilcoxon did. Equal absolute differences share their
    mean rank. The null distribution over all signs uses these ranks, so it is exact with ties; the
    usual tables are not. Ties are common on validation splits of a few hundred rows.
    """
    unequal = differences[differences != 0]
    _, place, counts = np.unique(np.abs(unequal), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[place]  # doubled mean ranks are integers
    probabilities = _rank_sums(doubled)
    positive = int(doubled[unequal > 0].sum())
    tail = min(probabilities[: positive + 1].sum(), probabilities[positive:].sum())
    return min(1.0, 2 * float(tail))


def _rank_sums(ranks: npt.NDArray[np.int64]) -> Numbers:
    """Return the null probability of each sum of positive ranks, from 0."""
    probabilities = np.ones(1)
    for rank in ranks:
        probabilities = (np.pad(probabilities, (0, rank)) + np.pad(probabilities, (rank, 0))) / 2
    return probabilities
