"""Random draws of a replicate's rows: its training subset, validation rows and unlabeled rows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol, Replicate, Rows, Size, Splits
from sclsearch.randomness import stream
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.stratified import by_counts, per_class, stratified

Unlabeled = int | Literal["all"]
"""Number of texts for stages that read no labels, or `all`."""


def draw_subset(data: TaskData, pool: Rows, size: Size, replicate: Replicate) -> Rows:
    """Return the training subset of a replicate."""
    y = pool.labels(data)
    rng = stream(replicate.subset, "subset")
    if size.per_class is None:
        return Rows(pool.split, pool.index[stratified(y, _total(data, pool, size), rng)])
    if data.task.regression:
        raise SclsearchError(
            f"--shots: needs a task of classes, but {data.task.name} has scores. Pass --train-size."
        )
    fewest = int(np.unique(y, return_counts=True)[1].min())
    if not 1 <= size.per_class <= fewest:
        raise SclsearchError(
            f"--shots: must be between 1 and {fewest}, the training rows of the smallest class of "
            f"{data.task.name}, got {size.per_class}."
        )
    return Rows(pool.split, pool.index[per_class(y, size.per_class, rng)])


def draw_at_random(data: TaskData, pool: Rows, size: Size, replicate: Replicate) -> Rows:
    """Return the training subset of a replicate: N rows, drawn without stratification.

    If the size is K per class, the draw is that of `draw_subset`. The errors are the same.
    """
    if size.per_class is not None:
        return draw_subset(data, pool, size, replicate)
    return draw_some(pool, _total(data, pool, size), stream(replicate.subset, "subset"))


def draw_alike(data: TaskData, train: Rows, pool: Rows, seed: int) -> Rows:
    """Return validation rows from the rest of the pool, as many of each class as for training.

    A class with fewer remaining rows contributes all of them.
    """
    rest = Rows(pool.split, np.setdiff1d(pool.index, train.index))
    rng = stream(seed, "validation")
    if data.task.regression:
        drawn = draw_some(rest, len(train.index), rng)
    else:
        drawn = draw_counts(data, rest, class_counts(data, train), rng)
    if not len(drawn.index):
        raise SclsearchError(
            f"{data.task.name}: the {len(train.index)} training rows leave none for validation. "
            "Train on fewer rows."
        )
    return drawn


def check_unlabeled(
    protocol: Protocol | None, rows: int, size: Size | None, total: Unlabeled | None
) -> None:
    """Raise SclsearchError if the requested unlabeled texts cannot exist.

    All rows may train with labels, or the protocol may join paraphrases. `rows` is the number of
    the task's unlabeled rows.
    """
    if total is None:
        return
    if size is None and not rows:
        raise SclsearchError(
            f"--unlabeled {total}: needs a training size, because all rows have labels without "
            "one. Pass --train-size N, in total, or --shots K, of each class."
        )
    if protocol is not None and protocol.joined:
        raise SclsearchError(
            f"--unlabeled {total}: cannot be combined with --protocol {protocol.name}, which adds "
            "paraphrases to the training rows. Choose another protocol."
        )


def draw_rows(
    protocol: Protocol,
    data: TaskData,
    size: Size | None,
    unlabeled: Unlabeled | None,
    replicate: Replicate,
) -> Splits:
    """Return the rows of a replicate, with the requested number of unlabeled texts.

    The unlabeled texts include the training rows; the others are drawn at random from the rest of
    the split. For one replicate, a smaller draw is a subset of a larger one.

    `unlabeled` is the total number of texts for stages without labels, or `all`; None takes the
    training rows alone.
    """
    splits = protocol.splits(data, size, replicate)
    if unlabeled is None:
        return splits
    own = splits.train
    held = (*splits.rows.values(), *splits.held)
    taken = [rows.index for rows in held if rows.split == own.split]
    every = np.arange(len(data.splits[own.split]))
    rest = Rows(own.split, np.setdiff1d(every, np.concatenate(taken)))
    further = len(rest.index) if unlabeled == "all" else unlabeled - len(own.index)
    if not 0 <= further <= len(rest.index):
        raise SclsearchError(
            f"--unlabeled: must be between {len(own.index)}, the training rows, and "
            f"{len(own.index) + len(rest.index)}, all rows of {data.task.name}'s training split "
            f"outside validation, got {unlabeled}. Pass `all` for all rows."
        )
    if not further:
        return splits
    drawn = draw_some(rest, further, stream(replicate.subset, "unlabelled"))
    note = f"stages without labels: {further} texts beside the {len(own.index)} training rows"
    return replace(
        splits,
        unlabeled=Rows(own.split, np.sort(np.concatenate([own.index, drawn.index]))),
        notes=(*splits.notes, note),
    )


def draw_some(pool: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Return `size` random rows of the pool, or all rows if the pool has fewer."""
    return Rows(pool.split, np.sort(rng.permutation(pool.index)[:size]))


def draw_counts(
    data: TaskData, pool: Rows, wanted: Mapping[int, int], rng: np.random.Generator
) -> Rows:
    """Return the wanted number of rows of each class, or all rows of a class that has fewer."""
    return Rows(pool.split, pool.index[by_counts(pool.labels(data), wanted, rng)])


def class_counts(data: TaskData, rows: Rows) -> dict[int, int]:
    """Return the number of rows of each class that occurs, by class number."""
    classes, counts = np.unique(rows.labels(data), return_counts=True)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def _total(data: TaskData, pool: Rows, size: Size) -> int:
    total = size.total or 0
    if not 1 <= total <= len(pool.index):
        raise SclsearchError(
            f"--train-size: must be between 1 and {len(pool.index)}, the training rows of "
            f"{data.task.name}, got {total}."
        )
    return total
