"""Tasks with numbered texts, made from lists of labels, and their splits."""

from collections.abc import Sequence

import numpy as np

from sclsearch.protocols import find_protocol
from sclsearch.protocols.base import Rows, Size, Splits
from sclsearch.tasks.base import Split, Task, TaskData


def labeled(name: str = "toy", metric: str = "accuracy", /, **splits: Sequence[float]) -> TaskData:
    """Return a task with the labels of its splits; integers are classes."""
    rows = {
        split: Split(tuple((f"{split} {n}",) for n in range(len(y))), np.array(y))
        for split, y in splits.items()
    }
    every = [y for labels in splits.values() for y in labels]
    classes = max(2, int(max(every)) + 1) if isinstance(every[0], int) else 0
    task = Task(name, "labels alone", ("no", "yes", "maybe")[:classes], metric)
    return TaskData(task, rows, "memory")


def splits_of(name: str, data: TaskData, number: int = 0, size: Size | int | None = None) -> Splits:
    """Return the splits of a replicate; a number is the total of training rows."""
    protocol = find_protocol(name)
    size = Size(total=size) if isinstance(size, int) else size
    return protocol.splits(data, size if protocol.few_shot else None, protocol.replicate(number))


def counts(rows: Rows, data: TaskData) -> list[int]:
    """Return the number of rows of each class."""
    return [int(count) for count in np.bincount(rows.labels(data).astype(np.int64))]


def row_ids(*rows: Rows) -> set[tuple[str, int]]:
    """Return the split and the number of every row."""
    return {(one.split, number) for one in rows for number in one.index.tolist()}
