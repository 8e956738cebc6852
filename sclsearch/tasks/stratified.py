"""Stratified draws as pure functions of labels and a random stream."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError
from sclsearch.randomness import stream
from sclsearch.tasks.base import Index, Labels, Split, Task
from sclsearch.tasks.tables import SHOWN_NAMES

NAMES = ("train", "validation", "test")
"""The splits in the order in which they get a row of every class."""


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


def draw_splits(
    split: Split, fractions: tuple[float, float, float], where: str
) -> Mapping[str, Split]:
    """Returns `train`, `validation` and `test`; without those whose fraction is 0.

    The draw is the same for the same rows, always. `train` has a row of every class; so have
    `validation` and then `test`, as far as there are rows of the class and in the split.

    Args:
        split: All rows.
        fractions: Shares of train, validation and test; their sum is 1.
        where: The file, for the error.

    Raises:
        SclsearchError: There are too few rows.
    """
    rng = stream(0, "fractions")
    held_out = [max(1, round(share * len(split))) if share else 0 for share in fractions[1:]]
    size = len(split) - sum(held_out)
    if size < (1 if split.y.dtype == np.float64 else len(np.unique(split.y))):
        raise SclsearchError(
            f"{where}: the rows must suffice for one of each class in train and "
            f"{sum(held_out)} in validation and test, but there are {len(split)}. Add rows."
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
    """Returns a line for each split that lacks classes; scores have none."""
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
    """Gives splits a row of each class that they lack, for one of the class they have most of.

    The row comes from the split that can spare most of its class: all but one, or all of them where
    the split comes later.

    Args:
        y: Class of each row, `[rows]`.
        place: Number of the split in `NAMES` that each row is in, `[rows]`; changed in place.
        rng: Draws the rows that change places.
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
