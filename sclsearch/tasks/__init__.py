"""Tasks: labeled texts with a metric, from published data sets, a user's files or the package."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sclsearch.arguments import expanded
from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.corpus import Corpus, fetch, load_corpora, load_corpus
from sclsearch.tasks.custom import HUB_PREFIX, CustomTask
from sclsearch.tasks.own_rows import load_custom_task
from sclsearch.tasks.tables import FORMATS, ending_of, read_table

DATA_VARIABLE = "SCLSEARCH_DATA"

DEMO = Task(
    name="demo",
    summary="Is the sentence good English? Minimal pairs from a small grammar",
    labels=("unacceptable", "acceptable"),
    metric="accuracy",
    protocol="plain",
)
CORPORA: Mapping[str, Corpus] = load_corpora(
    Path(__file__).with_name("corpora.toml").read_text(encoding="utf-8")
)
TASKS: Mapping[str, Task] = {
    DEMO.name: DEMO,
    **{name: corpus.task for name, corpus in CORPORA.items()},
}


def load_task(
    task: str | CustomTask, data_dir: Path | None = None, *, on_folds: bool = True
) -> TaskData:
    """Load a named task, or one from a user's own rows, `on_folds` as in `CustomTask.drawn`.

    `data_dir` is the folder with the published files, for example `CoLA/train.tsv`. None uses the
    one in the environment variable `SCLSEARCH_DATA` or, if unset, the Hugging Face hub.
    """
    task = as_task(task)
    if not isinstance(task, str):
        return load_custom_task(task, on_folds=on_folds)
    if task == DEMO.name:
        return load_demo()
    folder = data_folder(data_dir)
    return load_corpus(CORPORA[task], folder) if folder else fetch(CORPORA[task])


def load_demo() -> TaskData:
    """Return 2,000 training, 500 validation and 500 test rows, half of them acceptable.

    `tools/demo` in the repository generates them.
    """
    rows, splits = read_table(Path(__file__).with_name("demo.csv.gz")), {}
    for name in ("train", "validation", "test"):
        part = rows[rows["split"] == name]
        texts, y = tuple(zip(part["text"], strict=True)), part["label"].to_numpy(np.int64)
        splits[name] = Split(texts, y)
    return TaskData(task=DEMO, splits=splits, source="sclsearch itself")


def data_folder(data_dir: Path | None) -> Path | None:
    """Return the folder of the tasks' files: the argument, or the one set in the environment."""
    variable = os.environ.get(DATA_VARIABLE)
    return data_dir or (expanded(Path(variable)) if variable else None)


def check_data_dir(task: str | CustomTask, data_dir: Path | None) -> None:
    """Raise SclsearchError if a data folder is given for the demo or a user's own rows."""
    if data_dir is None or (isinstance(task, str) and task != DEMO.name):
        return
    name = task if isinstance(task, str) else task.path
    raise SclsearchError(
        f"--data-dir {data_dir}: must come with a published task, got {name}. Leave it out."
    )


def as_task(task: Any, **options: Any) -> str | CustomTask:
    """Return the name of a published task, or the description of a user's rows, with its columns.

    The options are fields of a `CustomTask`; None and False count as not given.
    """
    given = {name: one for name, one in options.items() if one is not None and one is not False}
    named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    if isinstance(task, CustomTask):
        if given:
            raise SclsearchError(f"{named}: is a field of the CustomTask. Set it there.")
        return task.with_columns()
    if isinstance(task, str) and not (is_own(task) or (given and Path(task).exists())):
        lookup(TASKS, task, "task")
        if given:
            raise SclsearchError(
                f"{named}: describes a file of your own, but {task} is a task of `sclsearch ls "
                "tasks`. Leave it out."
            )
        return task
    in_file = isinstance(task, str) and not task.startswith(HUB_PREFIX)
    if in_file and not expanded(Path(task)).exists():
        raise SclsearchError(
            f"--task {task}: the file is missing. Check the path, take a task of `sclsearch ls "
            f"tasks`, or pass hf:OWNER/NAME, a data set of the Hugging Face hub."
        )
    return CustomTask(task, **given).with_columns()


def is_own(task: str) -> bool:
    """Return True for the name of a file or of a data set on the hub."""
    files = ending_of(Path(task)) in FORMATS or "/" in task or os.sep in task
    return task not in TASKS and (files or task.startswith(HUB_PREFIX))
