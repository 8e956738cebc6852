"""Functions that choose the training, validation and test rows of a replicate.

A protocol's `rows` composes them. All draws are functions of the labels and a random stream.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS, Protocol, Replicate, Rows, Size, Splits
from sclsearch.randomness import stream
from sclsearch.tasks.base import (
    Index,
    Labels,
    TaskData,
    by_counts,
    equal_texts,
    held_out,
    per_class,
    stratified,
)

Unlabeled = int | Literal["all"]
"""Number of texts for stages that read no labels, or `all`."""
SAME_ROWS = "chosen and reported on the same rows"


def split_dev(data: TaskData, *, cap: int | None, overlap: bool = False) -> Splits:
    """Return the training split, and validation and test rows from the other labeled rows.

    A labeled test split is the test. Without one, as in GLUE, a stratified half of the validation
    split is the test; validation is drawn from the other half. Without a validation split, as in
    the corpora of Zhang et al., validation rows are held out of training. `cap` is the most
    validation rows, drawn stratified, and in that last case at most half of the rows.

    `overlap` draws validation from the whole validation split, test rows included. On small sets
    only this gives 500 validation rows beside a test of half the split.
    """
    if cap is not None and "test" in data.splits and "validation" not in data.splits:
        share = min(cap / data.splits["train"].labeled, 0.5)
        return hold_out(data, from_train(data), share=share, seed=0)
    y = validation_labels(data)
    rest = np.arange(len(y), dtype=np.int64)
    notes: list[str] = []
    test = whole(data, "test") if "test" in data.splits else None
    if test is None:
        test = Rows("validation", stratified(y, len(y) // 2, stream(0, "test")))
        rest = rest if overlap else np.setdiff1d(rest, test.index)
        kind = "random" if data.task.regression else "stratified"
        notes.append(f"test: a {kind} half of the validation split, {len(test.index)} rows")
    if cap is not None and len(rest) > cap:
        rest = rest[stratified(y[rest], cap, stream(0, "validation"))]
    elif cap is not None and len(rest) < cap:
        notes.append(f"validation: {len(rest)} rows, fewer than the protocol's {cap}")
    if overlap and "test" not in data.splits:
        notes.append("validation and test overlap")
    return Splits(whole(data, "train"), Rows("validation", rest), test, tuple(notes))


def from_train(data: TaskData) -> Splits:
    """Return the training split as both training and validation, for replicates to draw from.

    The test is the whole labeled test split or, without one as in GLUE, the whole validation split.
    """
    if "test" not in data.splits:
        validation_labels(data)
    test = whole(data, "test" if "test" in data.splits else "validation")
    notes = [f"test: all of the {test.split} split, {len(test.index)} rows"]
    if test.split == "test" and "validation" in data.splits:
        notes.append("the validation split is not used: validation rows come from training")
    return Splits(whole(data, "train"), whole(data, "train"), test, tuple(notes))


def plain_pool(data: TaskData) -> Splits:
    """Return the rows from which `plain` draws; no test rows if a user's task has no test split."""
    if not data.task.own or "test" in data.splits:
        return from_train(data)
    train = whole(data, "train")
    return Splits(train, train, Rows(train.split, train.index[:0]), (NO_TEST_ROWS,))


def hold_out(data: TaskData, splits: Splits, *, share: float, seed: int) -> Splits:
    """Return the splits after moving a stratified share of the training rows to validation.

    Training has a row of every class, so a class with a single row is absent from validation. In a
    user's own task, rows with equal texts stay together and are drawn as one, of the first one's
    class.
    """
    pool, groups = splits.train, _groups(data, splits.train)
    count = max(1, round(share * len(groups[0])))
    held = held_out(pool.labels(data), groups, count, stream(seed, "validation"))
    train, validation = (pool.take(np.flatnonzero(rows)) for rows in (~held, held))
    note = f"validation: {held.sum()} rows, {100 * share:.2g}% of the {len(held)} training rows"
    return replace(splits, train=train, validation=validation).noted(note)


def hold_out_fold(data: TaskData, splits: Splits, *, folds: int, number: int) -> Splits:
    """Return the splits after moving one fold of the training rows to validation.

    The numbers 0 to `folds` - 1 validate each row once, the next ones each row of another random
    division, and so on. Folds are stratified by class; the only row of a class always trains. In a
    user's own task, rows with equal texts are in one fold, as a row of the first one's class.
    Without test rows, each fold is its replicate's test, too.
    """
    pool, rng = splits.train, stream(number // folds, "folds")
    first, group = _groups(data, pool)
    order = rng.permutation(len(first))
    if not data.task.regression:
        y = pool.labels(data)[first]
        order = order[np.argsort(y[order], kind="stable")]
        order = order[np.bincount(y)[y[order]] > 1]
    if len(order) < folds:
        of_classes = "" if data.task.regression else " of classes with two or more"
        raise SclsearchError(
            f"{data.task.name}: has {len(order)} different training texts{of_classes}, too few "
            f"for {folds} folds. Add rows, or pass fewer --folds."
        )
    held = np.isin(group, order[number % folds :: folds])
    train, validation = (pool.take(np.flatnonzero(rows)) for rows in (~held, held))
    of = f"one of {folds} folds, about {len(held) / folds:.0f} of {len(held)} rows"
    splits = replace(splits, train=train, validation=validation)
    if NO_TEST_ROWS in splits.notes:
        note = f"no rows are for the test alone: each seed is validated and tested on {of}"
        return replace(splits, test=validation, notes=(note,))
    return splits.noted(f"validation: {of}")


def _groups(data: TaskData, pool: Rows) -> tuple[Index, Index]:
    """Return groups of rows that must not be divided, as `equal_texts` does for a user's task."""
    every = np.arange(len(pool.index))
    return equal_texts(pool.texts(data)) if data.task.own else (every, every)


def whole(data: TaskData, split: str) -> Rows:
    """Return all labeled rows of a split."""
    return Rows(split, np.arange(data.splits[split].labeled, dtype=np.int64))


def validation_labels(data: TaskData) -> Labels:
    """Return the labels of the validation split; raise SclsearchError without one."""
    if "validation" not in data.splits:
        raise SclsearchError(
            f"{data.task.name}: no validation split, only {', '.join(data.splits)}. Add one (for "
            "your own files --validation FILE, or --fractions 0.6,0.2,0.2) or, if there is a test "
            "split, pass a protocol that holds rows out of training: plain, gunel-full, "
            "gunel-fewshot, supcl-seq-heldout."
        )
    return data.splits["validation"].y


def draw_subset(
    data: TaskData, pool: Rows, size: Size, replicate: Replicate, *, as_they_fall: bool = False
) -> Rows:
    """Return the training subset of a replicate; `as_they_fall` draws N rows unstratified."""
    rng = stream(replicate.subset, "subset")
    if size.per_class is None:
        total = size.total or 0
        if not 1 <= total <= len(pool.index):
            raise SclsearchError(
                f"--train-size: must be between 1 and {len(pool.index)}, the training rows of "
                f"{data.task.name}, got {total}."
            )
        if as_they_fall:
            return draw_uniform(pool, total, rng)
        return pool.take(stratified(pool.labels(data), total, rng))
    if data.task.regression:
        raise SclsearchError(
            f"--shots: needs classes, but {data.task.name} is a regression. Pass --train-size."
        )
    fewest = min(class_counts(data, pool).values())
    if not 1 <= size.per_class <= fewest:
        raise SclsearchError(
            f"--shots: must be between 1 and {fewest}, the training rows of the smallest class of "
            f"{data.task.name}, got {size.per_class}."
        )
    return pool.take(per_class(pool.labels(data), size.per_class, rng))


def draw_validation(data: TaskData, train: Rows, pool: Rows, seed: int) -> Rows:
    """Return validation rows from the rest of the pool, as many of each class as for training.

    A class with fewer remaining rows contributes all of them.
    """
    rest = Rows(pool.split, np.setdiff1d(pool.index, train.index))
    rng = stream(seed, "validation")
    if data.task.regression:
        return draw_uniform(rest, len(train.index), rng)
    return draw_per_class(data, rest, class_counts(data, train), rng)


def draw_uniform(pool: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Return `size` random rows of the pool, or all rows if the pool has fewer."""
    return Rows(pool.split, np.sort(rng.permutation(pool.index)[:size]))


def draw_per_class(
    data: TaskData, pool: Rows, wanted: Mapping[int, int], rng: np.random.Generator
) -> Rows:
    """Return the wanted number of rows of each class, or all rows of a class that has fewer."""
    return pool.take(by_counts(pool.labels(data), wanted, rng))


def class_counts(data: TaskData, rows: Rows) -> dict[int, int]:
    """Return the number of rows of each class that occurs, by class number."""
    classes, counts = np.unique(rows.labels(data), return_counts=True)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def at_most(most: int, rows: Rows, data: TaskData, purpose: str) -> Rows:
    """Return a stratified sample of at most `most` rows, drawn by the purpose's random stream."""
    if len(rows.index) <= most:
        return rows
    return rows.take(stratified(rows.labels(data), most, stream(0, f"{purpose}/{rows.split}")))


def check_unlabeled(
    protocol: Protocol | None, rows: int, size: Size | None, total: Unlabeled | None
) -> None:
    """Raise SclsearchError if unlabeled texts, of which the task has `rows`, cannot be added."""
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
    the split. For one replicate, a smaller draw is a subset of a larger one. Without `unlabeled`,
    stages without labels read the training rows alone.
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
    drawn = draw_uniform(rest, further, stream(replicate.subset, "unlabelled"))
    note = f"stages without labels: {further} texts beside the {len(own.index)} training rows"
    both = Rows(own.split, np.sort(np.concatenate([own.index, drawn.index])))
    return replace(splits, unlabeled=both).noted(note)
