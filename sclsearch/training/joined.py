"""Augmentation of the training rows with paraphrases, as in Gunel et al., 2021, section 4.2.

With n rows and K paraphrases of each, row k·n + r is the k-th paraphrase of row r.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sclsearch.protocols.base import Rows
from sclsearch.tasks.base import Split, TaskData, Texts


def join(data: TaskData, views: Mapping[Texts, tuple[Texts, ...]], count: int) -> TaskData:
    """Return the task with paraphrases after its training rows, each with its row's label.

    Args:
        data: The task. Its digest does not change; the paraphrases have a separate digest.
        views: Paraphrases of the training texts; the paraphrases of other texts are empty.
        count: K, paraphrases per text.
    """
    train = data.splits["train"]
    train = train.take(np.arange(train.labeled))
    paraphrases = [
        views[row][view] if row in views else () for view in range(count) for row in train.texts
    ]
    parents = np.tile(np.arange(len(train)), 1 + count)
    longer = Split((*train.texts, *paraphrases), train.y[parents])
    return replace(data, splits={**data.splits, "train": longer})


def joined_rows(drawn: Rows, count: int, total: int) -> Rows:
    """Return the drawn rows and their paraphrases, `[(1 + K) * rows]`.

    Args:
        drawn: A subset of the n rows.
        count: K, paraphrases per text.
        total: Rows of the split including all paraphrases, (1 + K)·n.
    """
    starts = np.arange(0, total, total // (1 + count))
    return Rows(drawn.split, (starts[:, None] + drawn.index).reshape(-1))
