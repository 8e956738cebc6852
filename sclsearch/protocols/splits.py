"""How the labelled rows of a task become training, validation and test rows."""

from functools import partial

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Parts, Rows
from sclsearch.randomness import stream
from sclsearch.tasks.base import Labels, TaskData
from sclsearch.tasks.stratified import stratified

GUNEL_VALIDATION = 500


def split_dev(data: TaskData, *, cap: int | None, overlap: bool = False) -> Parts:
    """Returns the training split, and validation and test rows out of the labelled rest.

    A labelled test split stays the test. Without one, as in GLUE, a stratified half of the
    validation split is the test and validation is drawn from the other half.

    Args:
        data: The task's rows.
        cap: Most validation rows, drawn stratified; None takes all there are.
        overlap: Draw validation from all of the validation split, test rows included: the only
            way to have 500 of them beside a half-size test on small sets.

    Raises:
        SclsearchError: The task has no validation split.
    """
    y = _validation_labels(data)
    everything = np.arange(len(y), dtype=np.int64)
    notes: list[str] = []
    if "test" in data.splits:
        test = Rows("test", np.arange(len(data.splits["test"]), dtype=np.int64))
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
    return Parts(_train(data), Rows("validation", rest), test, tuple(notes))


def dev_is_test(data: TaskData) -> Parts:
    """Returns the validation split as validation and as test, as SupCL-Seq reports GLUE."""
    rows = Rows("validation", np.arange(len(_validation_labels(data)), dtype=np.int64))
    return Parts(_train(data), rows, rows, ("chosen and reported on the same rows",))


gunel_split = partial(split_dev, cap=GUNEL_VALIDATION)
gunel_overlap_split = partial(split_dev, cap=GUNEL_VALIDATION, overlap=True)
plain_split = partial(split_dev, cap=None)


def _train(data: TaskData) -> Rows:
    return Rows("train", np.arange(len(data.splits["train"]), dtype=np.int64))


def _validation_labels(data: TaskData) -> Labels:
    if "validation" not in data.splits:
        raise SclsearchError(
            f"{data.task.name}: there must be a validation split, but there are "
            f"{', '.join(data.splits)}."
        )
    return data.splits["validation"].y
