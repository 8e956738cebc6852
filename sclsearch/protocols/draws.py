"""Stratified draws as pure functions of labels and a random stream."""

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Index, Replicate, Rows, Size
from sclsearch.randomness import stream
from sclsearch.tasks.base import Labels, TaskData


def stratified(y: Labels, size: int, rng: np.random.Generator) -> Index:
    """Returns `size` row numbers, ascending, with the classes in the proportions of `y`.

    The shares are rounded by largest remainder; every class of `y` is there if `size` allows.
    Scores of a regression have no classes: their rows are drawn at random.
    """
    if np.issubdtype(y.dtype, np.floating):
        return np.sort(rng.permutation(len(y))[:size]).astype(np.int64)
    classes, counts = np.unique(y, return_counts=True)
    wanted = _shares(counts, size)
    return _take(y, dict(zip(classes.tolist(), wanted.tolist(), strict=True)), rng)


def per_class(y: Labels, shots: int, rng: np.random.Generator) -> Index:
    """Returns `shots` row numbers of each class, ascending."""
    return _take(y, dict.fromkeys(np.unique(y).tolist(), shots), rng)


def draw_subset(data: TaskData, pool: Rows, size: Size, replicate: Replicate) -> Rows:
    """Returns the training subset of a replicate.

    Raises:
        SclsearchError: The pool has fewer rows than asked for, or a task of scores no classes.
    """
    y = pool.labels(data)
    rng = stream(replicate.subset, "subset")
    if size.per_class is None:
        total = size.total or 0
        if not 1 <= total <= len(y):
            raise SclsearchError(
                f"--train-size {total}: it must lie between 1 and the {len(y)} training rows of "
                f"{data.task.name}."
            )
        return Rows(pool.split, pool.index[stratified(y, total, rng)])
    if data.task.regression:
        raise SclsearchError(
            f"--shots: the task must have classes, but {data.task.name} has scores. "
            "Give --train-size."
        )
    fewest = int(np.unique(y, return_counts=True)[1].min())
    if not 1 <= size.per_class <= fewest:
        raise SclsearchError(
            f"--shots {size.per_class}: it must lie between 1 and the {fewest} training rows of "
            f"the smallest class of {data.task.name}."
        )
    return Rows(pool.split, pool.index[per_class(y, size.per_class, rng)])


def _shares(counts: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    exact = counts * (size / counts.sum())
    shares: npt.NDArray[np.int64] = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(-(exact - shares), kind="stable")
    shares[by_remainder[: size - shares.sum()]] += 1
    # A class that rounding left out takes one row of the class that has the most.
    for missing in np.flatnonzero(shares == 0):
        if shares.max() > 1:
            shares[shares.argmax()] -= 1
            shares[missing] += 1
    return shares


def _take(y: Labels, wanted: dict[int, int], rng: np.random.Generator) -> Index:
    chosen = [
        rng.permutation(np.flatnonzero(y == label))[:count] for label, count in wanted.items()
    ]
    return np.sort(np.concatenate(chosen)).astype(np.int64)
