"""Published corpora, read from the files of a distribution or from the Hugging Face hub.

`corpora.toml` describes them.
"""

import logging
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from sclsearch.errors import SclsearchError
from sclsearch.tasks.base import Labels, Split, Task, TaskData, Texts
from sclsearch.tasks.tables import read_table, text_columns, to_split

# The hub stores scores as float32, the files with up to 14 decimals. Both agree on this many.
SCORE_DECIMALS = 6
HUB_BATCH = 10_000  # rows that are read from the hub's files at once
HUB_TIMEOUT = 10  # seconds until the hub's first response
# The hub keeps Yelp's quotes doubled as in CSV: \"" instead of \".
_ESCAPED_QUOTE = re.compile(r'\\""?')

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hub:
    """Location of a corpus on the Hugging Face hub."""

    repository: str
    revision: str | None  # commit, branch or tag; None for the newest commit
    config: str | None  # name of the task in the repository; None if it has only one
    columns: tuple[str, ...] = ()  # of the texts; the label's column is `label`
    as_written: bool = False  # the hub has the labels as written in the files
    splits: Mapping[str, str] = field(default_factory=dict)  # names on the hub that differ


@dataclass(frozen=True, slots=True)
class Corpus:
    """Task with the location and format of its rows."""

    task: Task  # its labels have the order of the hub's
    origin: str  # where users can get the files
    folder: str  # of the files, as named by the distribution
    files: Mapping[str, str]  # of each split with labels
    columns: tuple[str, ...]  # of the files: the texts, then the label
    header: tuple[str, ...] | None = None  # all columns of files without a header
    hub: Hub | None = None  # has the same rows
    written: tuple[str, ...] = ()  # labels in the files, in the task's order, if they differ
    undecided: str | None = None  # label of rows without annotator agreement, which are dropped
    distinct: bool = False  # a repeated text in a file is dropped
    # Maximum number of lines in a file with too few cells, and so without a label. They are
    # dropped, as on the hub.
    broken_lines: int = 0
    blank_texts: bool = False  # a text may be empty
    unescape: bool = False  # the files escape quotes and line ends by a backslash: undone
    joined: bool = False  # the texts of a row are joined into one, such as a title and its body
    english: bool = True

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Labels as written in the files, in the order of the classes; None in regression."""
        return None if self.task.regression else self.written or self.task.labels

    @property
    def instructions(self) -> str:
        files = " and ".join(f"FOLDER/{self.folder}/{file}" for file in self.files.values())
        return (
            f"Pass --data-dir FOLDER (or set SCLSEARCH_DATA=FOLDER) with {files} from {self.origin}"
            + (f", or neither to load {self.hub.repository} from the hub." if self.hub else ".")
        )

    def texts(self, cells: tuple[str, ...]) -> Texts:
        """Return the training texts, given the cells of the files or the hub."""
        if self.unescape:
            cells = tuple(_ESCAPED_QUOTE.sub('"', cell).replace("\\n", "\n") for cell in cells)
        if self.joined:
            return (" ".join(text for cell in cells if (text := cell.strip())),)
        return tuple(cell.rstrip() for cell in cells)


def load_corpora(toml: str) -> Mapping[str, Corpus]:
    """Return the corpora of a TOML text by the name of their task.

    A table has the keys that some tasks share; its `tasks` has the other keys by task. The keys are
    the fields of `Task`, `Hub` (below `hub`) and `Corpus`. `{folder}` in `origin` stands for the
    folder. Instead of `written`, `first_number` gives the number of the first class in the files.
    """
    corpora = {}
    for shared in tomllib.loads(toml).values():
        tasks = shared.pop("tasks")
        for name, own in tasks.items():
            hub = shared.get("hub", {}) | own.get("hub", {})
            keys = {**shared, **own, "hub": hub}
            if unknown := keys.keys() - _KEYS:
                raise ValueError(f"corpora.toml: {name}: unknown keys: {sorted(unknown)}")
            corpora[name] = _fields(name, keys)
    return TypeAdapter(dict[str, Corpus]).validate_python(corpora)


_KEYS = frozenset(one.name for kind in (Task, Corpus) for one in fields(kind)) | {"first_number"}


def _fields(name: str, keys: dict[str, Any]) -> dict[str, Any]:
    texts, first = keys["columns"][:-1], keys.get("first_number")
    pair = len(texts) == 2 and not keys.get("joined")
    task = {key: keys[key] for key in ("summary", "labels", "metric", "like") if key in keys}
    if first is not None:
        keys["written"] = [str(first + number) for number in range(len(keys["labels"]))]
    hub = {"config": keys.get("like", name), "columns": texts, **keys["hub"]}
    return {
        **keys,
        "task": {"name": name, "metric": "accuracy", "pair": pair, **task},
        "origin": keys["origin"].format(folder=keys["folder"]),
        "hub": hub if keys["hub"] else None,
    }


def load_corpus(corpus: Corpus, folder: Path) -> TaskData:
    """Read a corpus from its own files, in the folder `corpus.folder` below `folder`."""
    paths = {split: folder / corpus.folder / file for split, file in corpus.files.items()}
    missing = [f"{path}: the file is missing." for path in paths.values() if not path.is_file()]
    if missing:
        raise SclsearchError("\n".join([*missing, corpus.instructions]))
    splits, notes = {}, ""
    for split, path in paths.items():
        splits[split], dropped = _read(corpus, path)
        notes += "".join(f"; {count} {rows} left out" for rows, count in dropped.items() if count)
    return TaskData(corpus.task, splits, f"{folder / corpus.folder}{notes}")


def _read(corpus: Corpus, path: Path) -> tuple[Split, Mapping[str, int]]:
    import pandas as pd

    rows = text_columns(
        read_table(path, header=corpus.header, literal=True), corpus.columns, str(path)
    )
    *texts, labels = (rows.pop(name) for name in corpus.columns)
    cells = pd.Series(map(corpus.texts, zip(*texts, strict=True)), rows.index, dtype=object)
    broken = labels == ""
    drops = {
        f"broken lines of {path.name}": broken & (broken.sum() <= corpus.broken_lines),
        f"rows of {path.name} labeled {corpus.undecided!r}": labels == corpus.undecided,
        f"texts of {path.name} that come again": cells.duplicated() & corpus.distinct,
    }
    kept = ~np.logical_or.reduce([*drops.values()])
    texts, blank = cells[kept].tolist(), corpus.blank_texts
    split = to_split(texts, labels[kept], corpus.classes, str(path), blank_texts=blank)
    if corpus.task.regression:
        split = Split(split.texts, split.y.round(SCORE_DECIMALS))
    return split, {name: int(dropped.sum()) for name, dropped in drops.items()}


def fetch(corpus: Corpus) -> TaskData:
    """Download a corpus from the hub, or load it from the hub's cache."""
    hub = corpus.hub
    if hub is None:
        raise SclsearchError(
            f"--data-dir: {corpus.task.name} needs a folder with its files, since the Hugging Face "
            f"hub does not have them. {corpus.instructions}"
        )
    return from_hub(corpus, hub, download(hub, corpus.task.name, corpus.instructions))


def download(hub: Hub, name: str, instructions: str) -> Mapping[str, Any]:
    """Return the `datasets.Dataset` of each split, from the hub or its cache.

    `name` is the task's, for errors; `instructions` for the user end them.
    """
    import datasets
    from datasets.exceptions import DatasetsError

    if Path(hub.repository).exists():  # datasets would read it
        raise SclsearchError(
            f"{hub.repository}: {name} is on the hub, but a folder here has its name. Search in "
            "another folder."
        )
    offline = datasets.config.HF_HUB_OFFLINE
    # If the hub is unreachable, datasets would retry for half a minute with long messages.
    datasets.config.HF_HUB_OFFLINE = offline or not _reachable(hub)
    try:
        return dict(datasets.load_dataset(hub.repository, hub.config, revision=hub.revision))
    # ValueError: the cache has only other tasks. RuntimeError: a program makes the rows.
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise SclsearchError(
            f"{hub.repository}: {name} is neither on the hub nor in its cache: "
            f"{error}{cause}. {instructions}"
        ) from error
    finally:
        datasets.config.HF_HUB_OFFLINE = offline


def from_hub(corpus: Corpus, hub: Hub, found: Mapping[str, Any]) -> TaskData:
    """Return the rows of `datasets.Dataset` splits in the form of the corpus's own files.

    Splits that the files lack, or have without labels, are ignored. Raise SclsearchError if labels
    have other names or another order, or if a row has none.
    """
    splits = {}
    for split in corpus.files:
        name = hub.splits.get(split, split)
        rows = found[name]
        where = f"{hub.repository}: {corpus.task.name}: {name}"
        labels = getattr(rows.features["label"], "names", [])
        expected = (hub.as_written and corpus.written) or corpus.task.labels
        if tuple(labels) != expected:
            raise SclsearchError(
                f"{where}: the labels must be {list(expected)}, got {labels}. "
                "Clear the hub's cache."
            )
        texts: list[Texts] = []
        for start in range(0, len(rows), HUB_BATCH):
            batch = rows[start : start + HUB_BATCH]
            cells = zip(*(batch[column] for column in hub.columns), strict=True)
            texts += map(corpus.texts, cells)
        y: Labels = np.array(rows["label"][:], np.float64).round(SCORE_DECIMALS)
        if not corpus.task.regression:
            y = y.astype(np.int64)
            if unlabeled := int((y < 0).sum()):
                raise SclsearchError(
                    f"{where}: {unlabeled} rows have no label. Clear the hub's cache."
                )
        splits[split] = Split(tuple(texts), y)
    return TaskData(corpus.task, splits, _hub_source(hub, found))


def _reachable(hub: Hub) -> bool:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(hub.repository, revision=hub.revision, timeout=HUB_TIMEOUT)
    except (HfHubHTTPError, ValueError):  # the hub answers with an error, or the name is a folder's
        return True
    except Exception:
        logger.debug("the hub cannot be reached", exc_info=True)
        return False
    return True


def _hub_source(hub: Hub, found: Mapping[str, Any]) -> str:
    files = [Path(file["filename"]) for rows in found.values() for file in rows.cache_files]
    revision = str(hub.revision)[:8]
    others = sorted({file.parent.name[:8] for file in files} - {revision})
    if others:
        return f"{hub.repository} at {' and '.join(others)}, which the hub's cache has"
    return f"{hub.repository} at {revision}"
