"""Whether one configuration is better than another over paired replicates, and how many are enough.

The interval is Hesterberg's expanded percentile bootstrap (2015, https://arxiv.org/abs/1411.5279),
of fewer than six pairs Student's; the adjustment of several p-values is Holm's (1979, Scandinavian
Journal of Statistics 6:65-70).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.selection.ranking import mean_std
from sclsearch.selection.rules import DECIMALS

Numbers = npt.NDArray[np.float64]

RESAMPLES = 10_000
FEWEST_RESAMPLED = 6
"""Pairs below which resamples cannot cover their mean 95 times in 100."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the paired scores of two configurations, a and b, say of `a - b`.

    Attributes:
        n: Pairs: replicates in which both have a score, or the training subsets of these.
        n_missing: Replicates left out because at least one of the two failed.
        n_equal: Pairs of equal scores, which the test leaves out.
        difference: Mean of `a - b`.
        std: Sample standard deviation of `a - b`; None for one pair.
        interval: 95 % interval of the mean difference; None for one pair.
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
    a: Sequence[float | None], b: Sequence[float | None], subsets: Sequence[Hashable] = ()
) -> Comparison:
    """Returns what the scores of two configurations on the same replicates say of `a - b`.

    Where several subsets are trained on with several seeds each, as in CMLM's protocol, the seeds
    of one subset are not independent: their mean difference is one pair.

    Does not depend on the order of the replicates; `compare(b, a)` has the opposite signs and the
    same p. A failed seed is left out here, unlike in the ranking, where it counts as the worst:
    its pair would say more of the minimum of the metric than of the two configurations.

    Args:
        a: Score of each replicate, None where the seed failed.
        b: Scores of the other configuration on the same replicates, in the same order.
        subsets: What each replicate is trained on; without them, or where all are trained on the
            same, each replicate is a pair.

    Raises:
        SclsearchError: No replicate has two scores.
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
            "comparison: at least one replicate must have finished in both configurations, but "
            f"none of {len(a)} has. See why their seeds failed, or train further ones."
        )
    differences = np.round([math.fsum(own) / len(own) for own in of_subset.values()], DECIMALS)
    mean, std = mean_std(differences.tolist())
    return Comparison(
        n=len(differences),
        n_missing=n_missing,
        n_equal=int(np.sum(differences == 0)),
        difference=mean,
        std=std,
        interval=None if std is None else _interval(differences, mean, std),
        p=_wilcoxon(differences),
    )


def smallest_p(n: int) -> float:
    """Returns 2 / 2^n, the p-value when all n differences have one sign; 1 without a pair.

    Five pairs cannot reach 0.05 (0.0625), six can (0.03125).
    """
    return min(1.0, math.ldexp(2.0, -n))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values adjusted for their number, in the order given (Holm, 1979).

    The smallest of m is multiplied by m, the next by m - 1, …; none falls below a smaller one's.
    Rejecting where the adjusted value is at most alpha errs anywhere with probability alpha at
    most, however the tests depend on each other.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    floor = 0.0
    for rank, place in enumerate(order):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = floor
    return adjusted


def detectable(differences_std: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Returns the smallest true mean difference that n paired seeds would detect.

    Of a two-sided paired t-test of normal differences (noncentral t, not its normal
    approximation; the tail on the wrong side is left out: below 1e-4 for alpha 0.05 and a
    power from 0.5 on).
    Wilcoxon's test needs about 5 % more seeds on normal differences (its efficiency is 3/π) and
    cannot reject at all where `smallest_p(n)` is above alpha.

    Args:
        differences_std: Standard deviation of the paired differences.
        n: Number of seeds, at least 2.
        alpha: Risk of finding a difference where there is none.
        power: Chance of finding this one.

    Raises:
        SclsearchError: There are fewer than 2 seeds.
    """
    from scipy.special import nctdtrinc, stdtrit

    if n < 2:
        raise SclsearchError(
            f"seeds: detecting a difference needs at least 2 seeds, but there are {n}. "
            "Give more seeds."
        )
    critical = stdtrit(n - 1, 1 - alpha / 2)
    return float(nctdtrinc(n - 1, 1 - power, critical)) * differences_std / math.sqrt(n)


def detection(n: int, difference: float, unit: str = "seeds") -> str:
    """Returns `10 seeds can detect 1.4 points`; the difference is a share of 1."""
    return f"{n} {unit} can detect {in_points(difference)} points"


def in_points(difference: float) -> str:
    """Returns a share of 1 in hundredths, `1.4` or `under 0.1`."""
    points = 100 * difference
    return f"{points:.1f}" if points >= 0.05 else "under 0.1"


def _interval(differences: Numbers, mean: float, std: float) -> tuple[float, float]:
    r"""Interval of the mean: Student's of few pairs, else expanded percentiles of resamples.

    The plain percentile interval is too narrow for few pairs: it divides by n instead of n - 1 and
    takes normal for t quantiles. The level of its ends,
    $\Phi(-\sqrt{n/(n-1)}\, t_{0.975, n-1})$, undoes both where differences are normal. It never
    leaves the range of the differences, and so covers the mean of symmetric ones with chance
    1 - 2^(1-n) at most: of three pairs 75 %, which is why so few are not resampled. With ten
    strongly skewed differences it is about 90 %.

    Resamples of the sorted differences come with their mirror images, which makes the interval
    of the opposite differences the opposite interval.
    """
    from scipy.special import ndtr, stdtrit

    n = len(differences)
    if n < FEWEST_RESAMPLED:
        half = float(stdtrit(n - 1, 0.975)) * std / math.sqrt(n)
        return mean - half, mean + half
    ordered = np.sort(differences)
    drawn = stream(0, "comparison").integers(n, size=(RESAMPLES, n))
    means = np.concatenate([ordered[drawn], ordered[n - 1 - drawn]]).mean(axis=1)
    level = ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975))
    low, high = np.quantile(means, [level, 1 - level])
    return float(low), float(high)


def _wilcoxon(differences: Numbers) -> float:
    """Two-sided exact p-value of the signed ranks.

    Differences of zero are left out, as Wilcoxon did; equal ones share their mean rank, and the
    distribution over all signs is that of these ranks: exact with ties, which validation splits
    of a few hundred rows make the rule, where the usual tables are not.
    """
    unequal = differences[differences != 0]
    _, place, counts = np.unique(np.abs(unequal), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[place]  # twice the mean ranks: whole numbers
    forecasts = np.ones(1)  # of each doubled sum of the positive ranks
    for rank in doubled:
        forecasts = (np.pad(forecasts, (0, rank)) + np.pad(forecasts, (rank, 0))) / 2
    positive = int(doubled[unequal > 0].sum())
    tail = min(forecasts[: positive + 1].sum(), forecasts[positive:].sum())
    return min(1.0, 2 * float(tail))
