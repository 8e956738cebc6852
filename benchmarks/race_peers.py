"""Rules of other programs that skip seed runs, applied to a table of all scores.

Each peer takes the scores `[C, n]`, reads configurations in order, and returns which scores it
read, `[C, n]`, and the winner by the mean of all seeds among those that it completed.
"""

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Peer = Callable[[Numbers], tuple[Flags, int]]


def _best(scores: Numbers, read: Flags) -> int:
    return int(np.argmax(np.where(read.all(1), scores.mean(1), -np.inf)))


def wilcoxon_pruner(scores: Numbers) -> tuple[Flags, int]:
    """Optuna's WilcoxonPruner at its defaults: p < 0.1 against the best, guarded by the mean."""
    from scipy.stats import wilcoxon

    read, best = np.zeros(scores.shape, bool), -1
    for number, row in enumerate(scores):
        for seed in range(len(row)):
            read[number, seed] = True
            own, count = row[: seed + 1], seed + 1
            if best < 0 or count < 2 or own.mean() >= scores[best].mean():
                continue
            differences = own - scores[best, :count]
            if not differences.any():
                continue
            found = wilcoxon(differences, alternative="less", zero_method="zsplit")
            if found.pvalue < 0.1:
                break
        if read[number].all() and (best < 0 or row.mean() > scores[best].mean()):
            best = number
    return read, best


def halving_over_seeds(scores: Numbers) -> tuple[Flags, int]:
    """Successive halving with seeds as the budget: 3 for all, twice as many for the better half."""
    read, alive, count = np.zeros(scores.shape, bool), np.arange(len(scores)), 3
    seeds = scores.shape[1]
    while True:
        count = min(count, seeds)
        read[alive, :count] = True
        if count == seeds:
            return read, _best(scores, read)
        order = np.argsort(-scores[alive, :count].mean(1), kind="stable")
        alive, count = alive[order[: max(1, -(-len(alive) // 2))]], 2 * count


def friedman_race(scores: Numbers) -> tuple[Flags, int]:
    """irace: after 5 seeds, drop configurations by Friedman's test and Conover's threshold."""
    from scipy.stats import chi2, rankdata
    from scipy.stats import t as student

    read, alive = np.zeros(scores.shape, bool), np.arange(len(scores))
    for seed in range(seeds := scores.shape[1]):
        read[alive, seed] = True
        count, many = seed + 1, len(alive)
        if count < 5 or count == seeds or many < 3:
            continue
        ranks = rankdata(-scores[alive, :count], axis=0)
        sums, squares = ranks.sum(1), float((ranks**2).sum())
        spread = squares - count * many * (many + 1) ** 2 / 4
        if spread <= 0:
            continue
        statistic = (many - 1) * ((sums - count * (many + 1) / 2) ** 2).sum() / spread
        if statistic < chi2.ppf(0.95, many - 1):
            continue
        freedom = (count - 1) * (many - 1)
        rest = max(2 * count * (squares - (sums**2).sum() / count) / freedom, 0)
        alive = alive[sums - sums.min() <= student.ppf(0.975, freedom) * np.sqrt(rest)]
    return read, _best(scores, read)


def smac_intensification(scores: Numbers) -> tuple[Flags, int]:
    """SMAC: after 1, 2, 4 and 8 seeds, drop configurations not above the incumbent."""
    read, best = np.zeros(scores.shape, bool), -1
    for number, row in enumerate(scores):
        for seed in range(len(row)):
            read[number, seed] = True
            own, incumbent = row[: seed + 1], scores[best, : seed + 1]
            if best >= 0 and seed + 1 in {1, 2, 4, 8} and own.mean() <= incumbent.mean():
                break
        if read[number].all() and (best < 0 or row.mean() > scores[best].mean()):
            best = number
    return read, best


def three_seeds_then_ten(scores: Numbers) -> tuple[Flags, int]:
    """Common practice: 3 seeds for all, all seeds for the best 10."""
    read = np.zeros(scores.shape, bool)
    read[:, :3] = True
    read[np.argsort(-scores[:, :3].mean(1), kind="stable")[:10]] = True
    return read, _best(scores, read)


PEERS = MappingProxyType(
    {
        "WilcoxonPruner": wilcoxon_pruner,
        "halving over seeds": halving_over_seeds,
        "Friedman race": friedman_race,
        "SMAC intensification": smac_intensification,
        "3 seeds, then the best 10": three_seeds_then_ten,
    }
)
