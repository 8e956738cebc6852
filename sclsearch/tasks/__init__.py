"""Tasks: labeled texts with a metric, from published data sets, a user's files or the package."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sclsearch.arguments import expanded
from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Task, TaskData
from sclsearch.tasks.clue import CLUE
from sclsearch.tasks.corpus import Corpus, load_corpus
from sclsearch.tasks.custom import CustomTask, load_custom_task
from sclsearch.tasks.demo import DEMO, load_demo
from sclsearch.tasks.fewclue import FEWCLUE
from sclsearch.tasks.fewglue import FEWGLUE
from sclsearch.tasks.glue import GLUE
from sclsearch.tasks.hub import fetch
from sclsearch.tasks.tables import READERS
from sclsearch.tasks.zhang import ZHANG

DATA_VARIABLE = "SCLSEARCH_DATA"

CORPORA: Mapping[str, Corpus] = MappingProxyType({**GLUE, **ZHANG, **CLUE, **FEWCLUE, **FEWGLUE})

TASKS: Mapping[str, Task] = MappingProxyType(
    {DEMO.name: DEMO, **{name: corpus.task for name, corpus in CORPORA.items()}}
)


def load_task(task: str | CustomTask, data_dir: Path | None = None) -> TaskData:
    """Load a named task, or one from a user's own files.

    Args:
        task: Name in `TASKS`, or a description of the files.
        data_dir: Folder with the published files, for example `CoLA/train.tsv`. None uses the
            folder in the environment variable `SCLSEARCH_DATA` or, if unset, the Hugging Face hub.

    Raises:
        SclsearchError: The name is unknown, or the rows are missing or invalid.
    """
    if not isinstance(task, str):
        return load_custom_task(task)
    check_task_name(task)
    if task == DEMO.name:
        return load_demo()
    folder = data_folder(data_dir)
    return load_corpus(CORPORA[task], folder) if folder else fetch(CORPORA[task])


def data_folder(data_dir: Path | None) -> Path | None:
    """Return the folder of the tasks' files: the argument, or the one set in the environment."""
    told = os.environ.get(DATA_VARIABLE)
    return data_dir or (expanded(Path(told)) if told else None)


def check_data_dir(task: str | CustomTask, data_dir: Path | None) -> None:
    """Reject a data folder for a task that does not read one.

    Raises:
        SclsearchError: The task is generated or consists of a user's own files.
    """
    if data_dir is None or (isinstance(task, str) and task != DEMO.name):
        return
    other = f"{task} is made by sclsearch" if isinstance(task, str) else f"{task.path} is yours"
    raise SclsearchError(
        f"--data-dir {data_dir}: it must come with a task that has files there, but {other}. "
        "Leave it out."
    )


def check_task_name(name: str) -> None:
    """Reject an unknown task name.

    Raises:
        SclsearchError: The task does not exist; for a file, the message names the missing options.
    """
    file = Path(name).suffix.lower() in READERS or "/" in name or os.sep in name
    if file and name not in TASKS:
        if not expanded(Path(name)).is_file():
            raise SclsearchError(
                f"--task {name}: a file must be there, but there is none. Check the path, or take "
                "a task of `sclsearch ls tasks`."
            )
        raise SclsearchError(
            f"--task: a file's columns must be named, but {name!r} comes without them. "
            "Pass --text COLUMN (twice for a pair of texts) and --label COLUMN; in Python, "
            "CustomTask(path, text, label)."
        )
    lookup(TASKS, name, "task")
