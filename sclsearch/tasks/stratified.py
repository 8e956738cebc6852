"""Rows of one file drawn into splits, in which every class has its share."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.tasks.base import Labels, Split

Rows = npt.NDArray[np.int64]


def draw_splits(
    split: Split, fractions: tuple[float, float, float], where: str
) -> Mapping[str, Split]:
    """Returns `train`, `validation` and `test`; without those whose fraction is 0.

    The rows are put in order of class, at random within a class, and those held out are taken at
    even distances, so that a class of n rows gives n times the fraction, give or take one. One
    row of every class is kept for `train` before that. In regression the order is the score's.
    The draw is the same for the same rows, always.

    Args:
        split: All rows.
        fractions: Shares of train, validation and test; their sum is 1.
        where: The file, for the error.

    Raises:
        SclsearchError: There are too few rows.
    """
    sizes = [max(1, round(share * len(split))) if share else 0 for share in fractions[1:]]
    order = _by_label(split.y)
    pool = order[_repeated(split.y[order])]
    held_size = sum(sizes)
    if held_size > len(pool) or held_size >= len(split):
        raise SclsearchError(
            f"{where}: the rows must suffice for one of each class in train and "
            f"{held_size} in validation and test, but there are {len(split)}. Add rows."
        )
    held = pool[_evenly(len(pool), held_size)]
    in_test = np.zeros(held_size, np.bool_)
    in_test[_evenly(held_size, sizes[1])] = True
    drawn = {
        "train": np.setdiff1d(np.arange(len(split)), held),
        "validation": np.sort(held[~in_test]),
        "test": np.sort(held[in_test]),
    }
    return {name: _take(split, rows) for name, rows in drawn.items() if len(rows)}


def _by_label(y: Labels) -> Rows:
    shuffled = stream(0, "fractions").permutation(len(y))
    return shuffled[np.argsort(y[shuffled], kind="stable")]


def _repeated(labels: Labels) -> npt.NDArray[np.bool_]:
    """Marks all but the first row of each class, `[rows]`, of rows in order of class."""
    if labels.dtype == np.float64:
        return np.ones(len(labels), np.bool_)
    return np.concatenate([[False], labels[1:] == labels[:-1]])


def _evenly(rows: int, picks: int) -> Rows:
    return ((np.arange(picks) + 0.5) * rows / max(picks, 1)).astype(np.int64)


def _take(split: Split, rows: Rows) -> Split:
    return Split(tuple(split.texts[row] for row in rows), split.y[rows])
