"""Variance components of scores: training subset, initialization and data order.

The design is fully crossed: every subset with every initialization with every data order, one run
per cell. Dodge et al. (2020, https://arxiv.org/abs/2002.06305) crossed initializations with orders
in the same way. Varying one source at a time could not separate a source from its interactions.

The total is the variance of a comparison that draws all sources anew, as Bouthillier et al. (2021,
https://arxiv.org/abs/2103.03098) recommend.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.randomness import stream
from sclsearch.selection.significance import ALPHA, _rank_sums, smallest_p

Numbers = npt.NDArray[np.float64]

SOURCES = ("subset", "initialization", "order")
"""Sources of variance. The noise seed always equals the order seed."""
DRAWS = 10_000
ROUNDING = 1e-12
LARGEST_VARIANCE = 0.25
"""Largest variance of scores between 0 and 1."""
TOO_FEW_LEVELS = (
    "the intervals reach beyond the largest possible variance: train more seeds of each source"
)
ONE_SUBSET = (
    "subset: all seed runs here have one training subset, but the protocol draws one for each "
    "seed, which spreads them further; --subsets 3 tells how far"
)


@dataclass(frozen=True, slots=True)
class Observation:
    """Score of one seed run in a crossed design.

    Attributes:
        subset: Seed of the training subset.
        initialization: Seed of the newly initialized layers.
        order: Seed of data order and noise.
        score: Score of the seed run; None if it failed.
    """

    subset: int
    initialization: int
    order: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Component:
    """Variance of a score due to one source.

    Attributes:
        estimate: Unbiased estimate. It can be negative if the true variance is small.
        interval: 95 % interval, truncated at 0.
    """

    estimate: float
    interval: tuple[float, float]

    @property
    def variance(self) -> float:
        """The estimate, or 0 if it is negative."""
        return max(0.0, self.estimate)


@dataclass(frozen=True, slots=True)
class VarianceDecomposition:
    """Variance decomposition of the scores of one configuration.

    Attributes:
        runs: Number of seed runs.
        mean: Mean score.
        components: Component of each varied source, and `residual`: all interactions of the
            sources, and nondeterminism that no seed controls. A source with one level has no
            component.
        total: Variance of a run that draws all varied sources anew.
        one_subset: True if all seed runs share one subset although the protocol draws several.
    """

    runs: int
    mean: float
    components: Mapping[str, Component]
    total: Component
    one_subset: bool = False

    def share(self, source: str) -> float:
        """Return a source's share of the summed components; 0 if the sum is 0."""
        whole = math.fsum(component.variance for component in self.components.values())
        return self.components[source].variance / whole if whole > 0 else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report on components that count as 0 or are missing."""
        notes = [
            f"{source}: the estimate is {component.estimate:.2g}, below 0, and counts as 0"
            for source, component in self.components.items()
            if component.estimate < -ROUNDING
        ]
        if self.total.interval[1] > LARGEST_VARIANCE:
            notes.append(TOO_FEW_LEVELS)
        return (*notes, ONE_SUBSET) if self.one_subset else tuple(notes)

    def detectable(self, n: int) -> tuple[float, float, float]:
        """Return the smallest mean difference of two such configurations that n seeds detect.

        The other two values belong to the lower and upper end of the total variance's interval.
        The variance of the difference is taken as twice the total variance, as for unpaired scores.
        If paired scores are positively correlated, n seeds detect a smaller difference.

        Raises:
            SclsearchError: There are fewer than 2 seeds.
        """
        low, high = self.total.interval
        one, *ends = (detectable(math.sqrt(2 * v), n) for v in (self.total.variance, low, high))
        return one, ends[0], ends[1]


def design(levels: Mapping[str, int]) -> list[dict[str, int]]:
    """Return the replicates of a fully crossed design, each as the fields of a `Replicate`.

    Seeds of every source count from 0. Cells with equal seeds therefore equal the replicates of a
    protocol whose seeds are the replicate numbers. Both designs share these seed runs.

    Args:
        levels: Number of seeds per source. A missing source has one seed; the subset must have one
            if the protocol trains on all rows.

    Raises:
        SclsearchError: A source is unknown, a number is below 1, or fewer than two sources vary.
            The message lists every error.
    """
    faults = [fault for name, count in levels.items() for fault in _level_faults(name, count)]
    if faults:
        raise SclsearchError("\n".join(faults))
    counts = [levels.get(source, 1) for source in SOURCES]
    _check_varied([source for source, count in zip(SOURCES, counts, strict=True) if count > 1])
    return [
        {"number": number, **dict(zip(SOURCES, cell, strict=True)), "noise": cell[-1]}
        for number, cell in enumerate(product(*map(range, counts)))
    ]


def components(observations: Sequence[Observation]) -> VarianceDecomposition:
    r"""Return the variance component of each source, by random-effects analysis of variance.

    The model of a score is a mean plus an independent random effect of every set of sources $T$.
    The sets range from single sources (main effects) to all sources (highest interaction). One run
    per cell cannot separate the highest interaction from random noise. With $n_f$ levels of source
    f the mean squares have the expectations
    $E[M_T] = \sum_{U \supseteq T} \sigma_U^2 \prod_{f \notin U} n_f$. Solved for the variances:
    $\hat\sigma_T^2 = \sum_{U \supseteq T} (-1)^{|U \setminus T|} M_U / \prod_{f \notin T} n_f$.
    These estimates are unbiased for all distributions, and main effects exclude interactions.

    Args:
        observations: One finished seed run per cell, in any order.

    Raises:
        SclsearchError: Fewer than two sources vary, or a cell does not have exactly one score. The
            message names every such cell.
    """
    table = _table(observations)
    scores = table.squeeze()
    named = enumerate(name for name, count in zip(SOURCES, table.shape, strict=True) if count > 1)
    sets = [
        set(c) for size in range(scores.ndim) for c in combinations(range(scores.ndim), size + 1)
    ]
    freedom = np.array([math.prod(scores.shape[axis] - 1 for axis in some) for some in sets])
    squares = np.array([_sum_of_squares(scores, some) for some in sets])
    solved = np.array([[_weight(one, of, scores.shape) for of in sets] for one in sets])
    found = {source: _component(solved[axis], squares, freedom) for axis, source in named}
    return VarianceDecomposition(
        runs=scores.size,
        mean=float(scores.mean()),
        components={**found, "residual": _component(solved[len(found) :].sum(0), squares, freedom)},
        total=_component(solved.sum(axis=0), squares, freedom),
    )


def _component(weights: Numbers, squares: Numbers, freedom: Numbers) -> Component:
    r"""Return a weighted sum of mean squares with its 95 % interval.

    The interval is an inverted parametric bootstrap of the mean squares. For normal effects,
    $M_T \nu_T / E[M_T]$ is chi-squared with $\nu_T$ degrees of freedom. Each draw therefore
    replaces $E[M_T]$ by $M_T \nu_T / \chi^2$ (surrogate variables; Chiang, 2001, Technometrics
    43:356-367). Resampling runs or levels would give too narrow an interval, because there are few
    levels.
    """
    draws = stream(0, "variance").chisquare(freedom[:, None], (len(freedom), DRAWS))
    low, high = np.quantile(weights @ (squares[:, None] / draws), [0.025, 0.975])
    interval = max(0.0, float(low)), max(0.0, float(high))
    return Component(float(weights @ (squares / freedom)), interval)


def _sum_of_squares(scores: Numbers, some: set[int]) -> float:
    """Return the sum of squares, over all cells, of the effects of a set of axes."""
    effects = scores
    for axis, count in enumerate(scores.shape):
        mean = effects.mean(axis=axis, keepdims=True)
        effects = effects - mean if axis in some else np.repeat(mean, count, axis=axis)
    return float((effects**2).sum())


def _weight(one: set[int], of: set[int], levels: Sequence[int]) -> float:
    """Return the weight of the mean square of axes `of` in the variance of axes `one`."""
    if not one <= of:
        return 0.0
    sign = 1 if len(of - one) % 2 == 0 else -1
    return sign / math.prod(count for axis, count in enumerate(levels) if axis not in one)


def _level_faults(name: str, count: int) -> list[str]:
    faults = []
    if name not in SOURCES:
        faults.append(f"levels.{name}: unknown source.{suggestion(name, SOURCES)}")
    if count < 1:
        faults.append(
            f"levels.{name}: must be at least 1, got {count}. Give 2 or more to vary the source."
        )
    return faults


def _check_varied(sources: Sequence[str]) -> None:
    if len(sources) < 2:
        raise SclsearchError(
            f"levels: at least two of {', '.join(SOURCES)} must vary, only "
            f"{' and '.join(sources) or 'none'} does. With one source, its variance cannot be "
            "separated from random variation."
        )


def _table(observations: Sequence[Observation]) -> Numbers:
    """Return the scores by level of each source, `[subsets, initializations, orders]`."""
    found: dict[tuple[int, ...], list[float]] = {}
    cells = [(one.subset, one.initialization, one.order) for one in observations]
    for cell, one in zip(cells, observations, strict=True):
        found.setdefault(cell, []).extend([] if one.score is None else [one.score])
    levels = [sorted({cell[axis] for cell in cells}) for axis in range(len(SOURCES))]
    _check_varied([s for s, seeds in zip(SOURCES, levels, strict=True) if len(seeds) > 1])
    faults = {c: len(found.get(c, [])) for c in product(*levels) if len(found.get(c, [])) != 1}
    if faults:
        raise SclsearchError("\n".join(_cell_fault(c, count) for c, count in faults.items()))
    scores = [found[cell][0] for cell in product(*levels)]
    return np.array(scores).reshape([len(seeds) for seeds in levels])


def _cell_fault(cell: tuple[int, ...], count: int) -> str:
    where = ", ".join(f"{source} {seed}" for source, seed in zip(SOURCES, cell, strict=True))
    return (
        f"{where}: must have one finished seed run, got {count}. Train the missing runs, or leave "
        "out every run with one of these seeds."
    )


def detectable(differences_std: float, n: int, alpha: float = ALPHA, power: float = 0.8) -> float:
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
