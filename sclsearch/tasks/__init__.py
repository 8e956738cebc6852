"""Tasks: labeled texts with a metric, from published data sets, a user's files or the package."""

import csv
import gzip
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from sclsearch.arguments import expanded
from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.corpus import Corpus, fetch, load_corpora, load_corpus
from sclsearch.tasks.custom import HUB_PREFIX, CustomTask, load_custom_task
from sclsearch.tasks.tables import READERS

DATA_VARIABLE = "SCLSEARCH_DATA"

DEMO = Task(
    name="demo",
    summary="Is the sentence good English? Minimal pairs from a small grammar",
    labels=("unacceptable", "acceptable"),
    metric="accuracy",
    protocol="plain",
)
CORPORA: Mapping[str, Corpus] = MappingProxyType(
    load_corpora(Path(__file__).with_name("corpora.toml").read_text(encoding="utf-8"))
)
TASKS: Mapping[str, Task] = MappingProxyType(
    {DEMO.name: DEMO, **{name: corpus.task for name, corpus in CORPORA.items()}}
)


def load_task(task: str | CustomTask, data_dir: Path | None = None) -> TaskData:
    """Load a named task, or one from a user's own files.

    Args:
        task: Name in `TASKS`, or a description of the files.
        data_dir: Folder with the published files, for example `CoLA/train.tsv`. None uses the
            folder in the environment variable `SCLSEARCH_DATA` or, if unset, the Hugging Face hub.
    """
    if not isinstance(task, str):
        return load_custom_task(task)
    check_task_name(task)
    if task == DEMO.name:
        return load_demo()
    folder = data_folder(data_dir)
    return load_corpus(CORPORA[task], folder) if folder else fetch(CORPORA[task])


def load_demo() -> TaskData:
    """Return 2,000 training, 500 validation and 500 test rows, half of them acceptable.

    `tools/demo` in the repository generates them.
    """
    with gzip.open(Path(__file__).with_name("demo.csv.gz"), "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    splits = {}
    for name in ("train", "validation", "test"):
        of_split = [row for row in rows if row["split"] == name]
        splits[name] = Split(
            texts=tuple((row["text"],) for row in of_split),
            y=np.array([int(row["label"]) for row in of_split], dtype=np.int64),
        )
    return TaskData(task=DEMO, splits=splits, source="sclsearch itself")


def data_folder(data_dir: Path | None) -> Path | None:
    """Return the folder of the tasks' files: the argument, or the one set in the environment."""
    variable = os.environ.get(DATA_VARIABLE)
    return data_dir or (expanded(Path(variable)) if variable else None)


def check_data_dir(task: str | CustomTask, data_dir: Path | None) -> None:
    """Raise SclsearchError if a data folder is given for the demo or a user's own files."""
    if data_dir is None or (isinstance(task, str) and task != DEMO.name):
        return
    name = task if isinstance(task, str) else task.path
    raise SclsearchError(
        f"--data-dir {data_dir}: must come with a published task, got {name}. Leave it out."
    )


def check_task_name(name: str) -> None:
    """Raise SclsearchError for an unknown task name; for a file, it names the missing options."""
    if name.startswith(HUB_PREFIX):
        raise SclsearchError(
            f"--task {name}: the columns of the data set are missing. Pass --text COLUMN (twice "
            "for a pair of texts) and --label COLUMN; in Python, CustomTask.from_hub(name, text, "
            "label)."
        )
    path = Path(name)
    if name in TASKS or not (path.suffix.lower() in READERS or "/" in name or os.sep in name):
        lookup(TASKS, name, "task")
    elif expanded(path).is_file():
        raise SclsearchError(
            f"--task {name}: the columns of the file are missing. "
            "Pass --text COLUMN (twice for a pair of texts) and --label COLUMN; in Python, "
            "CustomTask(path, text, label)."
        )
    else:
        raise SclsearchError(
            f"--task {name}: the file is missing. Check the path, or take a task of "
            "`sclsearch ls tasks`."
        )
