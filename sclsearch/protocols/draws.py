"""The training subset of a replicate."""

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Replicate, Rows, Size
from sclsearch.randomness import stream
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.stratified import per_class, stratified


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
