"""GLUE's tasks from the Hugging Face hub."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Labels, Split, TaskData
from sclsearch.tasks.glue import GLUE, SCORE_DECIMALS, WAYS, Glue

REPOSITORY = "nyu-mll/glue"
REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"


def fetch_glue(name: str) -> TaskData:
    """Fetches a task, or takes it from the hub's cache.

    Args:
        name: Name of the task, `sst2`.

    Raises:
        SclsearchError: The hub cannot be reached and its cache does not have the task, or its
            labels are not the task's.
    """
    import datasets

    glue = lookup(GLUE, name, "GLUE task")
    try:
        found = datasets.load_dataset(REPOSITORY, name, revision=REVISION)
    except (OSError, ValueError) as error:  # ValueError: the cache has other tasks alone
        raise SclsearchError(
            f"{REPOSITORY}: {name} must be on the hub or in its cache, but: {error}. {WAYS}"
        ) from error
    return convert(glue, found)


def convert(glue: Glue, found: Mapping[str, Any]) -> TaskData:
    """Returns the hub's rows as they are read from GLUE's TSV files.

    Args:
        glue: The task.
        found: A `datasets.Dataset` for each split; a `test` split is left aside, for its labels
            are missing.

    Raises:
        SclsearchError: The labels have other names or another order, or a row has none.
    """
    splits = {}
    for split in glue.files:
        hub_split = f"{split}_matched" if split not in found else split
        rows = found[hub_split]
        where = f"{REPOSITORY}: {glue.task.name}: {hub_split}"
        _check_names(glue, getattr(rows.features["label"], "names", []), where)
        texts = zip(*(_texts(rows[column]) for column in glue.hub_columns), strict=True)
        splits[split] = Split(tuple(texts), _labels(glue, rows["label"], where))
    return TaskData(glue.task, splits, f"{REPOSITORY} at {REVISION[:8]}")


def _check_names(glue: Glue, names: list[str], where: str) -> None:
    if tuple(names) != glue.task.labels:
        raise SclsearchError(
            f"{where}: the labels must be {list(glue.task.labels)}, but they are {names}. "
            "Clear the hub's cache."
        )


def _texts(column: Any) -> list[str]:
    return [text.rstrip() for text in column[:]]


def _labels(glue: Glue, column: Any, where: str) -> Labels:
    if glue.task.regression:
        return np.array(column[:], np.float64).round(SCORE_DECIMALS)
    y = np.array(column[:], np.int64)
    if (y < 0).any():
        raise SclsearchError(
            f"{where}: every row must have a label, but {int((y < 0).sum())} have none. "
            "Clear the hub's cache."
        )
    return y
