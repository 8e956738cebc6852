"""Functions that divide a task's labeled rows into training, validation and test rows."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS, Rows, Splits
from sclsearch.randomness import stream
from sclsearch.tasks.base import Labels, TaskData
from sclsearch.tasks.stratified import stratified

HELD_OUT = 0.2
"""Share of the training rows that `plain` holds out for validation if the task has only a test
split."""
MOST_HELD_OUT = 2_000
"""Most rows that `plain` holds out."""


def split_dev(data: TaskData, *, cap: int | None, overlap: bool = False) -> Splits:
    """Return the training split, and validation and test rows from the other labeled rows.

    A labeled test split is the test. Without one, as in GLUE, a stratified half of the validation
    split is the test; validation is drawn from the other half. Without a validation split, as in
    the corpora of Zhang et al., validation rows are held out of training. Their number is the cap,
    but at most half of the rows.

    Args:
        data: The task's rows.
        cap: Maximum number of validation rows, drawn stratified; None takes all.
        overlap: Draw validation from the whole validation split, test rows included. On small sets
            only this gives 500 validation rows beside a test of half the split.
    """
    if cap is not None and "test" in data.splits and "validation" not in data.splits:
        share = min(cap / data.splits["train"].labeled, 0.5)
        return hold_out(data, from_train(data), share=share, seed=0)
    y = _validation_labels(data)
    everything = np.arange(len(y), dtype=np.int64)
    notes: list[str] = []
    if "test" in data.splits:
        test = _whole(data, "test")
        rest = everything
    else:
        half = stratified(y, len(y) // 2, stream(0, "test"))
        test = Rows("validation", half)
        rest = everything if overlap else np.setdiff1d(everything, half)
        kind = "random" if data.task.regression else "stratified"
        notes.append(f"test: a {kind} half of the validation split, {len(half)} rows")
    if cap is not None and len(rest) > cap:
        rest = rest[stratified(y[rest], cap, stream(0, "validation"))]
    elif cap is not None and len(rest) < cap:
        notes.append(f"validation: {len(rest)} rows, fewer than the protocol's {cap}")
    if overlap and "test" not in data.splits:
        notes.append("validation and test overlap")
    return Splits(_whole(data, "train"), Rows("validation", rest), test, tuple(notes))


SAME_ROWS = "chosen and reported on the same rows"


def dev_is_test(data: TaskData) -> Splits:
    """Return the validation split as both validation and test, as SupCL-Seq reports GLUE.

    Some tasks differ from another task in their test rows alone, for example mismatched MNLI. For
    these the test split is both, because the validation split would give the other task's score.
    """
    notes = [SAME_ROWS]
    if data.task.like is not None and "test" in data.splits:
        test = _whole(data, "test")
        return Splits(_whole(data, "train"), test, test, tuple(notes))
    _validation_labels(data)
    rows = _whole(data, "validation")
    if "test" in data.splits:
        notes.append("the test split is not used: scores are of the validation split")
    return Splits(_whole(data, "train"), rows, rows, tuple(notes))


def from_train(data: TaskData) -> Splits:
    """Return the training split as both training and validation, for replicates to draw from.

    The test is the whole labeled test split or, without one as in GLUE, the whole validation split.
    """
    if "test" not in data.splits:
        _validation_labels(data)
    test = _whole(data, "test" if "test" in data.splits else "validation")
    notes = [f"test: all of the {test.split} split, {len(test.index)} rows"]
    if test.split == "test" and "validation" in data.splits:
        notes.append("the validation split is not used: validation rows come from training")
    return Splits(_whole(data, "train"), _whole(data, "train"), test, tuple(notes))


def held_out_split(data: TaskData, *, share: float) -> Splits:
    """Hold out a share of the training rows for validation; all replicates share the rows."""
    return hold_out(data, from_train(data), share=share, seed=0)


def hold_out(data: TaskData, splits: Splits, *, share: float, seed: int) -> Splits:
    """Return the splits with a stratified share of the training rows as validation instead.

    Training has a row of every class, so a class with a single row is absent from validation.
    """
    pool = splits.train
    size = len(pool.index) - max(1, round(share * len(pool.index)))
    if not size:
        raise SclsearchError(
            f"{data.task.name}: needs at least 2 training rows, one of them for validation, got "
            f"{len(pool.index)}. Add rows."
        )
    chosen = pool.index[stratified(pool.labels(data), size, stream(seed, "validation"))]
    held = np.setdiff1d(pool.index, chosen)
    part = f"{100 * share:.2g}% of the {len(pool.index)} training rows"
    note = f"validation: {len(held)} rows, {part}"
    return Splits(
        Rows(pool.split, chosen), Rows(pool.split, held), splits.test, (*splits.notes, note)
    )


def split_dev_at_random(
    data: TaskData, *, sizes: tuple[int, ...], least: int, most: Mapping[str, int]
) -> Splits:
    """Return the training split, and validation and test rows drawn without stratification.

    A labeled test split is the test.

    Args:
        data: The task's rows.
        sizes: Candidate numbers of validation rows, the protocol's first. The first that leaves
            enough test rows is used; if none does, validation has half of the rows.
        least: Minimum number of test rows.
        most: Maximum number of test rows by task, for tasks with a limit.
    """
    rows = len(_validation_labels(data))
    order = stream(0, "validation").permutation(rows)
    if "test" in data.splits:
        size = min(sizes[0], rows)
        test = _whole(data, "test")
        notes = []
    else:
        size = next((size for size in sizes if rows - size >= least), rows // 2)
        rest = order[size:]
        test = Rows("validation", np.sort(rest[: most.get(data.task.public_name)]))
        drawn = f"{len(test.index)} random of " if len(test.index) < len(rest) else ""
        notes = [f"test: {drawn}the other {len(rest)} rows of the validation split"]
    if not size:
        raise SclsearchError(
            f"{data.task.name}: the validation split needs at least 2 rows, one of them for the "
            f"test, got {rows}. Add rows."
        )
    fewer = f", fewer than the protocol's {sizes[0]}" if size < sizes[0] else ""
    notes.insert(0, f"validation: {size} random rows{fewer}")
    return Splits(
        _whole(data, "train"), Rows("validation", np.sort(order[:size])), test, tuple(notes)
    )


def plain_split(data: TaskData) -> Splits:
    """Return the task's own splits; without validation, hold out a fifth of the training rows.

    A user's own task without a test split has no test rows.
    """
    if "validation" not in data.splits and (data.task.own or "test" in data.splits):
        share = min(HELD_OUT, MOST_HELD_OUT / data.splits["train"].labeled)
        return hold_out(data, plain_pool(data), share=share, seed=0)
    if data.task.own and "test" not in data.splits:
        return replace(plain_pool(data), validation=_whole(data, "validation"))
    return split_dev(data, cap=None)


def plain_pool(data: TaskData) -> Splits:
    """Return `from_train`; a user's own task without a test split has no test rows."""
    if not data.task.own or "test" in data.splits:
        return from_train(data)
    train = _whole(data, "train")
    return Splits(train, train, Rows(train.split, train.index[:0]), (NO_TEST_ROWS,))


def _whole(data: TaskData, split: str) -> Rows:
    return Rows(split, np.arange(data.splits[split].labeled, dtype=np.int64))


def _validation_labels(data: TaskData) -> Labels:
    if "validation" not in data.splits:
        raise SclsearchError(
            f"{data.task.name}: no validation split, only {', '.join(data.splits)}. Add one (for "
            "your own files --validation FILE, or --fractions 0.6,0.2,0.2) or, if there is a test "
            "split, pass a protocol that holds rows out of training: plain, gunel-full, "
            "gunel-fewshot, supcl-seq-heldout."
        )
    return data.splits["validation"].y
