"""Tasks that are nothing but labels."""

from collections.abc import Sequence

import numpy as np
import pytest

from sclsearch.tasks.base import Split, Task, TaskData


class Labelled:
    """Makes a task from the labels of its splits."""

    def __call__(self, name: str = "toy", **splits: Sequence[float]) -> TaskData:
        classes = all(isinstance(y, int) for labels in splits.values() for y in labels)
        kind = np.int64 if classes else np.float64
        return TaskData(
            Task(name, "labels alone", ("no", "yes", "maybe") if classes else (), "accuracy"),
            {
                split: Split(tuple((f"{split} {n}",) for n in range(len(y))), np.array(y, kind))
                for split, y in splits.items()
            },
            "memory",
        )


@pytest.fixture(scope="session")
def labelled() -> Labelled:
    return Labelled()
