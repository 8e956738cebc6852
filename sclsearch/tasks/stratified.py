"""Stratified random draws, as pure functions of the labels and a random stream."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.tasks.base import Index, Labels, Split, Task
from sclsearch.tasks.tables import SHOWN_NAMES

NAMES = ("train", "validation", "test")
"""Names of the splits, in the order in which they get a row of every class."""


def stratified(y: Labels, size: int, rng: np.random.Generator) -> Index:
    """Return `size` row numbers, ascending, with the classes in the proportions of `y`.

    The shares are rounded by largest remainder; every class of `y` occurs if `size` allows it. In
    regression the rows are drawn uniformly at random.
    """
    if np.issubdtype(y.dtype, np.floating):
        return np.sort(rng.permutation(len(y))[:size]).astype(np.int64)
    classes, counts = np.unique(y, return_counts=True)
    wanted = _shares(counts, size)
    return by_counts(y, dict(zip(classes.tolist(), wanted.tolist(), strict=True)), rng)


def per_class(y: Labels, shots: int, rng: np.random.Generator) -> Index:
    """Return `shots` row numbers of each class, ascending."""
    return by_counts(y, dict.fromkeys(np.unique(y).tolist(), shots), rng)


def _shares(counts: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    exact = counts * (size / counts.sum())
    shares: npt.NDArray[np.int64] = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(-(exact - shares), kind="stable")
    shares[by_remainder[: size - shares.sum()]] += 1
    # A class with a rounded share of 0 takes one row from the largest share.
    for missing in np.flatnonzero(shares == 0):
        if shares.max() > 1:
            shares[shares.argmax()] -= 1
            shares[missing] += 1
    return shares


def by_counts(y: Labels, wanted: Mapping[int, int], rng: np.random.Generator) -> Index:
    """Return row numbers, ascending: the wanted number of each class, or all that it has."""
    chosen = [
        rng.permutation(np.flatnonzero(y == label))[:count] for label, count in wanted.items()
    ]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def draw_splits(
    split: Split, fractions: tuple[float, float, float], where: str
) -> Mapping[str, Split]:
    """Return `train`, `validation` and `test` splits; omit those whose fraction is 0.

    The draw is deterministic given the rows. `train` has a row of every class. So have `validation`
    and then `test`, as far as the class has enough rows and the split enough places.

    `where` is the file, for the error. The fractions sum to 1.
    """
    rng = stream(0, "fractions")
    held_out = [max(1, round(share * len(split))) if share else 0 for share in fractions[1:]]
    size = len(split) - sum(held_out)
    classes = 1 if split.y.dtype == np.float64 else len(np.unique(split.y))
    if size < classes:
        raise SclsearchError(
            f"{where}: has {len(split)} rows of {classes} classes, too few for "
            f"one of each class in train and {sum(held_out)} in validation and test. Add rows, or "
            "name another label column."
        )
    train = stratified(split.y, size, rng)
    held = np.setdiff1d(np.arange(len(split)), train)
    tested = held[stratified(split.y[held], held_out[1], rng)] if held_out[1] else held[:0]
    place = np.ones(len(split), np.int64)
    place[train], place[tested] = 0, 2
    if split.y.dtype != np.float64:
        _exchange(split.y, place, rng)
    drawn = {name: np.flatnonzero(place == number) for number, name in enumerate(NAMES)}
    return {name: split.take(index) for name, index in drawn.items() if len(index)}


def lacking(task: Task, splits: Mapping[str, Split]) -> Iterator[str]:
    """Yield a message for each split that lacks classes; yield nothing in regression."""
    counts = {
        name: [int((split.y == n).sum()) for n in range(len(task.labels))]
        for name, split in splits.items()
    }
    every = [sum(rows) for rows in zip(*counts.values(), strict=True)]
    for name, rows in counts.items():
        lacks = [
            f"{label!r} ({every[n]} in all)" for n, label in enumerate(task.labels) if not rows[n]
        ]
        if lacks:
            more = f" and {len(lacks) - SHOWN_NAMES} more" if len(lacks) > SHOWN_NAMES else ""
            yield f"{name} has no row of class {', '.join(lacks[:SHOWN_NAMES])}{more}"


def _exchange(y: Labels, place: Index, rng: np.random.Generator) -> None:
    """Give each split a row of each class that it lacks, in exchange for one of its largest class.

    The row comes from the split with the most rows to spare. A split must keep one row of the
    class, unless it comes later in `NAMES`. `place`, the number of each row's split, is changed.
    """
    classes, kind = np.unique(y, return_inverse=True)
    cells = np.bincount(place * len(classes) + kind, minlength=len(NAMES) * len(classes))
    counts = cells.reshape(len(NAMES), len(classes))  # [splits, C]
    for to in (1, 2):
        for missing in np.flatnonzero(counts[to] == 0):
            most = counts[to].argmax()
            spare = counts[:, missing] - (np.arange(len(NAMES)) < to)
            of = spare.argmax()
            if spare[of] < 1 or counts[to, most] < 2:
                continue
            comes = rng.choice(np.flatnonzero((place == of) & (kind == missing)))
            goes = rng.choice(np.flatnonzero((place == to) & (kind == most)))
            place[comes], place[goes] = to, of
            for split, change in ((to, 1), (of, -1)):
                counts[split, missing] += change
                counts[split, most] -= change
