"""Tasks with numbered texts, made from lists of labels."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from sclsearch.tasks.base import Labels, Split, Task, TaskData

Labeled = Callable[..., TaskData]


@pytest.fixture(scope="session")
def labeled() -> Labeled:
    """Return a function that makes a task from the labels of its splits; integers are classes."""

    def labeled(name: str = "toy", **splits: Sequence[float]) -> TaskData:
        classes = all(isinstance(y, int) for labels in splits.values() for y in labels)
        rows = {}
        for split, labels in splits.items():
            y: Labels = np.array(labels, np.int64) if classes else np.array(labels, np.float64)
            rows[split] = Split(tuple((f"{split} {n}",) for n in range(len(y))), y)
        names = ("no", "yes", "maybe") if classes else ()
        return TaskData(Task(name, "labels alone", names, "accuracy"), rows, "memory")

    return labeled
