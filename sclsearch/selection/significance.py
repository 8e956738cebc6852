"""Significance tests of two configurations on paired replicates, and their statistical power.

- Confidence interval: Hesterberg's expanded percentile bootstrap (2015,
  https://arxiv.org/abs/1411.5279); Student's t interval for fewer than six pairs.
- Adjustment of several p-values: Holm (1979, Scandinavian Journal of Statistics 6:65-70).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.selection.rules import DECIMALS, mean_std

Numbers = npt.NDArray[np.float64]

RESAMPLES = 10_000
FEWEST_RESAMPLED = 6
"""Smallest number of pairs for which resampling can reach a coverage of 95 %."""


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
        interval=None if std is None else _interval(differences, mean, std),
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


def detectable(differences_std: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest true mean difference that a test of n paired seeds detects.

    The test is a two-sided paired t-test of normal differences. The power comes from the noncentral
    t distribution, not from its normal approximation. The tail on the wrong side is ignored: it is
    below 1e-4 for alpha 0.05 and a power of at least 0.5.

    Wilcoxon's test needs about 5 % more seeds on normal differences (its efficiency is 3/π). It
    cannot reject at all if `smallest_p(n)` is above alpha.

    Args:
        differences_std: Standard deviation of the paired differences.
        n: Number of seeds, at least 2.
        alpha: Probability of a false detection if there is no difference.
        power: Probability of detecting the returned difference.

    Raises:
        SclsearchError: There are fewer than 2 seeds.
    """
    from scipy.special import nctdtrinc, stdtrit

    if n < 2:
        raise SclsearchError(
            f"seeds: must be at least 2 to detect a difference, got {n}. Give more seeds."
        )
    critical = stdtrit(n - 1, 1 - alpha / 2)
    return float(nctdtrinc(n - 1, 1 - power, critical)) * differences_std / math.sqrt(n)


def detection(n: int, difference: float, unit: str = "seeds") -> str:
    """Return a sentence such as `10 seeds can detect 1.4 points`.

    `difference` is a share of 1; a point is a hundredth.
    """
    return f"{n} {unit} can detect {in_points(difference)} points"


def in_points(difference: float) -> str:
    """Return a share of 1 as text in hundredths, for example `1.4` or `under 0.1`."""
    points = 100 * difference
    return f"{points:.1f}" if points >= 0.05 else "under 0.1"


def _interval(differences: Numbers, mean: float, std: float) -> tuple[float, float]:
    r"""Return the 95 % interval of the mean difference.

    Few pairs get Student's t interval. More pairs get expanded percentiles of bootstrap resamples.

    The plain percentile interval is too narrow for few pairs: it divides by n instead of n - 1 and
    uses normal instead of t quantiles. The expanded level of its ends,
    $\Phi(-\sqrt{n/(n-1)}\, t_{0.975, n-1})$, corrects both for normal differences.

    A percentile interval never leaves the range of the differences. Its coverage of the mean of
    symmetric differences is therefore at most 1 - 2^(1-n). For three pairs that is 75 %, so the
    function does not resample so few. Coverage is about 90 % for ten strongly skewed differences.

    The function adds the mirror image of each resample of the sorted differences. Negated
    differences therefore give the negated interval.
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
    """Return the exact two-sided p-value of Wilcoxon's signed-rank test.

    The test ignores differences of zero, as Wilcoxon did. Equal absolute differences share their
    mean rank. The null distribution over all signs uses these ranks, so it is exact with ties; the
    usual tables are not. Ties are common on validation splits of a few hundred rows.
    """
    unequal = differences[differences != 0]
    _, place, counts = np.unique(np.abs(unequal), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[place]  # doubled mean ranks are integers
    probabilities = np.ones(1)  # of each doubled positive-rank sum
    for rank in doubled:
        probabilities = (np.pad(probabilities, (0, rank)) + np.pad(probabilities, (rank, 0))) / 2
    positive = int(doubled[unequal > 0].sum())
    tail = min(probabilities[: positive + 1].sum(), probabilities[positive:].sum())
    return min(1.0, 2 * float(tail))
