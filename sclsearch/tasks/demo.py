"""Built-in `demo` task: English acceptability in minimal pairs."""

import csv
import gzip
from importlib.resources import files

import numpy as np

from sclsearch.tasks.base import Split, Task, TaskData

DEMO = Task(
    name="demo",
    summary="Is the sentence good English? Minimal pairs from a small grammar",
    labels=("unacceptable", "acceptable"),
    metric="accuracy",
    protocol="plain",
)


def load_demo() -> TaskData:
    """Return 2,000 training, 500 validation and 500 test rows, half of them acceptable.

    `tools/demo` in the repository generates them.
    """
    packed = files("sclsearch.tasks").joinpath("demo.csv.gz").read_bytes()
    rows = list(csv.DictReader(gzip.decompress(packed).decode().splitlines()))
    splits = {}
    for name in ("train", "validation", "test"):
        of_split = [row for row in rows if row["split"] == name]
        splits[name] = Split(
            texts=tuple((row["text"],) for row in of_split),
            y=np.array([int(row["label"]) for row in of_split], dtype=np.int64),
        )
    return TaskData(task=DEMO, splits=splits, source="sclsearch itself")
