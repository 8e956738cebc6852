"""Small histograms of seed scores on one axis, for tables in a terminal."""

from collections.abc import Sequence

WIDTH = 11
FEWEST_SEEDS = 3
_BLOCKS = " ▂▄▆█"


def axis(scores: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Return the lowest and the highest score; None if histograms say no more than a mean.

    A histogram is worth its space if two or more configurations have three or more seeds, and
    scores differ.

    Args:
        scores: Scores of the seeds of each configuration.
    """
    every = [score for one in scores for score in one]
    enough = sum(len(one) >= FEWEST_SEEDS for one in scores)
    if enough < 2 or min(every) == max(every):
        return None
    return min(every), max(every)


def strip(scores: Sequence[float], low: float, high: float) -> str:
    """Return a histogram of scores between `low` and `high`, one character per bin.

    The height of a block shows the number of seeds in its bin: 1, 2, 3, or 4 and more.
    """
    counts = [0] * WIDTH
    for score in scores:
        counts[min(int((score - low) / (high - low) * WIDTH), WIDTH - 1)] += 1
    return "".join(_BLOCKS[min(count, len(_BLOCKS) - 1)] for count in counts)
