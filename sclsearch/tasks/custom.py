"""Custom tasks: texts and labels in a user's own files, in memory, or in a data set of the hub."""

import hashlib
import math
import re
import reprlib
import unicodedata
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Union

import numpy as np
from pydantic import BeforeValidator

from sclsearch.arguments import OWN, Option, check_fields
from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Split, Task, TaskData, Texts
from sclsearch.tasks.corpus import Hub, download
from sclsearch.tasks.metrics import METRICS
from sclsearch.tasks.stratified import draw_splits, lacking
from sclsearch.tasks.tables import (
    check_quotes,
    check_values,
    has_blank,
    read_table,
    text_columns,
    to_frame,
    to_split,
)

if TYPE_CHECKING:
    import datasets
    import pandas as pd

RowSource = Union[str, Path, "pd.DataFrame", "datasets.Dataset", "datasets.DatasetDict"]
"""Rows of a user: a file, a name on the hub, or data in memory."""
DATA_FOLDER = Path("sclsearch-data")
"""Folder for the rows of data frames and hub data sets."""
HUB_PREFIX = "hf:"
"""Start of the name of a data set on the Hugging Face hub."""
TEST_SHARE, LARGEST_TEST_SHARE = 0.25, 0.4
"""Share of the rows that are test rows without a test file, and their largest share."""
FEWEST_TEST_ROWS, MOST_TEST_ROWS = 40, 2_000
"""Number of test rows that a small and a large table should have.

At 40 rows and an accuracy of 0.9, the 95 % interval of the score is ±9 points.
"""
IMBALANCED = 2 / 3
"""Share of the largest class above which accuracy is uninformative."""
SPLIT_VALUES: Mapping[str, str] = MappingProxyType(
    {
        "train": "train",
        "validation": "validation",
        "valid": "validation",
        "dev": "validation",
        "test": "test",
    }
)
MANY_NUMBERS = 20
"""Number of numeric classes above which numbers with decimals are taken for scores."""
LONGEST_NAME = 200
"""Maximum length of a task's name in bytes: file systems allow 255 with the endings."""
TEXT_NAMES = ("text", "sentence")
LABEL_NAME = "label"


def _numbers(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class CustomTask:
    """Description of a task in a user's own rows.

    The splits come from files, from a column, or from a random draw by fractions. A split with a
    file has fraction 0. If none is given, a quarter of the rows are test rows, but 40 if there are
    as many; validation rows are then drawn from the others, by the protocol.

    Example:
        >>> task = CustomTask(frame, "text", "label", name="mine")  # doctest: +SKIP
        >>> task = CustomTask("hf:owner/name@v1")  # doctest: +SKIP

    Rows come from a file, from a pandas data frame, from a `datasets.Dataset` or `DatasetDict`, or
    from a data set of the Hugging Face hub, `hf:owner/name` or `hf:owner/name/config`, with an
    optional `@revision`. Rows that are not in a file are written to Parquet files in `DATA_FOLDER`,
    so that a study can resume and its seed runs can be repeated. Equal rows are written once.

    Attributes:
        path: Training rows, or all rows; files are CSV, TSV, JSON, JSON Lines or Parquet, which
            may be compressed as `.gz`.
        name: Name of the task if the rows are in memory; a file gives its own name.
    """

    path: Path
    text: Annotated[
        str | Sequence[str] | None,
        Option(
            "Column of the text, twice for pairs of texts. Default: text or sentence, or the other "
            "of two columns.",
            OWN,
            kind=list[str] | None,
        ),
    ] = None
    label: Annotated[
        str | None,
        Option(
            "Column of the label. Default: label, or the other of two columns.",
            OWN,
        ),
    ] = None
    validation: Annotated[Path | None, Option("Validation rows.", OWN, more=True)] = None
    test: Annotated[Path | None, Option("Test rows.", OWN, more=True)] = None
    split_column: Annotated[
        str | None,
        Option("Column of each row's split: train, validation or test.", OWN, more=True),
    ] = None
    fractions: Annotated[
        Annotated[tuple[float, float, float], BeforeValidator(_numbers)] | None,
        Option(
            "Fractions of training, validation and test rows, drawn stratified by class. With no "
            "test rows there is no test score. Example: 0.8,0.1,0.1.",
            OWN,
            more=True,
            kind=str | None,
        ),
    ] = None
    metric: Annotated[
        str | None,
        Option(
            "accuracy, mcc, f1, macro_f1, pearson or spearman. Default: accuracy, or pearson in "
            "regression.",
            OWN,
            more=True,
        ),
    ] = None
    regression: Annotated[bool, Option("The labels are numbers.", OWN, more=True)] = False
    id: Annotated[
        str | None,
        Option(
            "Column that identifies a row in reports. Default: the row's number.", OWN, more=True
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Option("Delimiter of a CSV file: a character or tab. Default: detected.", OWN, more=True),
    ] = None
    name: InitVar[str | None] = None

    def __post_init__(self, name: str | None) -> None:
        """Write rows that are not in a file; raise SclsearchError if a field has the wrong type."""
        rows = {split: getattr(self, split) for split in ("path", "validation", "test")}
        in_memory = {
            split: value
            for split, value in rows.items()
            if not isinstance(value, str | Path | None) or str(value).startswith(HUB_PREFIX)
        }
        for split in in_memory:
            object.__setattr__(self, split, Path(split))
        check_fields(self)
        if self.text is not None:
            columns = (self.text,) if isinstance(self.text, str) else tuple(self.text)
            object.__setattr__(self, "text", columns)
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", known_delimiter(self.delimiter))
        if in_memory:
            for field, value in _written(self, in_memory, name).items():
                object.__setattr__(self, field, value)

    @property
    def paths(self) -> Mapping[str, Path]:
        """File of each split that has one; that of `train` may have the rows of all splits."""
        paths = {"train": self.path, "validation": self.validation, "test": self.test}
        return {name: path for name, path in paths.items() if path is not None}

    @property
    def task_name(self) -> str:
        return Path(self.path.stem).stem if self.path.suffix.lower() == ".gz" else self.path.stem

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the task reads: texts, label, then those of splits and identifiers."""
        others = (self.label, self.split_column, self.id)
        return (*(self.text or ()), *(name for name in others if name is not None))

    def drawn(self, rows: int) -> tuple[float, float, float] | None:
        """Return the fractions by which the first file, of so many rows, is split; None if none."""
        if self.fractions or len(self.paths) > 1 or self.split_column is not None:
            return self.fractions
        few = min(FEWEST_TEST_ROWS, round(LARGEST_TEST_SHARE * rows))
        share = min(max(round(TEST_SHARE * rows), few), MOST_TEST_ROWS) / rows
        return 1 - share, 0.0, share

    def with_columns(self) -> "CustomTask":
        """Return the task with the columns of texts and label that its file has by default."""
        if self.text is not None and self.label is not None:
            return self
        frame = read_table(self.path, self.delimiter)
        return replace(self, **_found_columns(self, frame, str(self.path)))


def known_delimiter(text: str) -> str:
    """Return the character that `--delimiter` names."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise SclsearchError(f"--delimiter: must be a character or tab, got {text!r}.")
    return delimiter


def _found_columns(files: CustomTask, frame: "pd.DataFrame", where: str) -> dict[str, Any]:
    text, label = files.text, files.label
    names = [name for name in map(str, frame.columns) if name not in (files.split_column, files.id)]
    if text is None:
        text = next(((name,) for name in TEXT_NAMES if name in names and name != label), None)
    if label is None and LABEL_NAME in names and LABEL_NAME not in (text or ()):
        label = LABEL_NAME
    if len(names) == 2 and (text is None or label is None):
        if text is None and label is None:
            lengths = [text_columns(frame, [name], where)[name].str.len().sum() for name in names]
            label = names[int(np.argmin(lengths))]
        rest = [name for name in names if name != label and name not in (text or ())]
        text, label = text or tuple(rest), rest[0] if label is None else label
    if text is None or label is None:
        raise SclsearchError(
            f"{where}: the columns of text and label are not clear. Pass --text (twice for a pair "
            f"of texts) and --label; the columns are {', '.join(map(str, frame)) or 'none'}."
        )
    return {"text": text, "label": label}


def _written(files: CustomTask, in_memory: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Write rows to Parquet files; return the columns and the file of each field of them."""
    rows = dict(in_memory)
    if isinstance(rows.get("path"), str):
        rows["path"], found = _from_hub(rows["path"])
        name = name or found
    if isinstance(rows.get("path"), Mapping):
        rows |= _by_split(files, rows["path"])
    name = _checked_name("data" if name is None else name)
    frames = {
        field: to_frame(data, f"--{field}".replace("path", "task")) for field, data in rows.items()
    }
    if "path" in frames:
        columns = _found_columns(files, frames["path"], name)
    else:
        known = files.with_columns()
        columns = {"text": known.text, "label": known.label}
    others = [column for column in (files.split_column, files.id) if column is not None]
    paths = {}
    for field, frame in frames.items():
        texts = text_columns(frame, [*columns["text"], columns["label"], *others], name)
        # The test rows of many data sets on the hub have no labels.
        if field in in_memory or not texts[columns["label"]].isin(["", "-1"]).all():
            paths[field] = _write(texts, name if field == "path" else f"{name}-{field}")
    return {**columns, **paths}


def _by_split(files: CustomTask, rows: Mapping[str, Any]) -> dict[str, Any]:
    splits = {SPLIT_VALUES[name]: one for name, one in rows.items() if name in SPLIT_VALUES}
    if "train" not in splits:
        raise SclsearchError(
            f"--task: must have a split train, got {', '.join(rows)}. Pass the rows alone."
        )
    for split in ("validation", "test"):
        if split in splits and getattr(files, split) is not None:
            raise SclsearchError(f"--{split}: the task has this split. Leave it out.")
    return {"path": splits.pop("train"), **splits}


def _from_hub(name: str) -> tuple[Mapping[str, Any], str]:
    """Return the splits of a data set on the hub or in its cache, and a name for them."""
    place, _, revision = name.removeprefix(HUB_PREFIX).partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+){0,2}", place):
        raise SclsearchError(
            f"--task {name}: must be hf:owner/name, hf:owner/name/config or either of them "
            "with @revision. Change it."
        )
    owner, _, rest = place.partition("/")
    data_set, _, config = rest.partition("/")
    hub = Hub("/".join(filter(None, (owner, data_set))), revision or None, config or None)
    found = download(hub, name, "Check name and network, or pass a file with the rows.")
    return found, "-".join(filter(None, (data_set or owner, config)))


def _checked_name(name: object) -> str:
    if not (
        isinstance(name, str)
        and name.isprintable()
        and 0 < len(name.encode()) <= LONGEST_NAME
        and Path(name).name == name != ".."
    ):
        raise SclsearchError(
            "name: must be a file name without folders and control characters, of at most "
            f"{LONGEST_NAME} bytes, got {reprlib.repr(name)}. Pass a short name."
        )
    return name


def _write(rows: "pd.DataFrame", name: str) -> Path:
    """Write rows to a file whose folder is named after their digest; return its path."""
    digest = hashlib.sha256(rows.to_csv(index=False).encode()).hexdigest()[:16]
    path = DATA_FOLDER / digest / f"{name}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{uuid.uuid4().hex}.part")
        rows.to_parquet(part, index=False)
        part.replace(path)
    return path


def load_custom_task(files: CustomTask) -> TaskData:
    """Read a task from a user's files.

    The classes are the distinct labels of the training rows, sorted as text. Unlabeled training
    rows come last; only stages that read no labels train on them. Rows with an empty text, and
    other rows without a label, are left out with a note.
    """
    files = files.with_columns()
    _check_options(files)
    notes: list[str] = []
    parts = _read(files, notes)
    train = parts["train"][files.label]
    if not (train != "").any():
        raise SclsearchError(f"{files.path}: there are no labeled training rows. Add some.")
    classes = None if files.regression else sorted({*train} - {""})
    if classes is not None:
        _check_classes(files, classes)
    splits: dict[str, Split] = {}
    for name, part in parts.items():
        where, rest = str(files.paths.get(name, files.path)), part[part[files.label] != ""]
        if name != "train" and len(rest) < len(part):
            rows = counted(len(part) - len(rest), f"{name} row")
            notes.append(f"{rows} without a label left out")
        ids = _ids(files, rest)
        splits[name] = to_split(_texts(files, rest), rest[files.label], classes, where, ids=ids)
    task = _task(files, tuple(classes or ()))
    drawn = files.drawn(len(splits["train"]))
    if drawn:
        splits |= draw_splits(splits["train"], drawn, str(files.path))
    unlabeled = parts["train"][train == ""]
    if len(unlabeled):
        texts, ids = _texts(files, unlabeled), _ids(files, unlabeled)
        splits["train"] = splits["train"].with_unlabeled(texts, ids)
    notes += _notes(task, splits)
    return TaskData(task, splits, _source(files, drawn), notes=tuple(notes))


def _texts(files: CustomTask, part: "pd.DataFrame") -> list[Texts]:
    return list(zip(*(part[name] for name in files.text or ()), strict=True))


def _ids(files: CustomTask, part: "pd.DataFrame") -> list[str]:
    return part[files.id].tolist() if files.id else [str(row + 1) for row in part.index]


def _read(files: CustomTask, notes: list[str]) -> dict[str, "pd.DataFrame"]:
    """Return the rows of each split with texts; add notes on those without."""
    parts = {}
    for name, path in files.paths.items():
        rows = text_columns(read_table(path, files.delimiter), files.columns, str(path))
        check_quotes(rows, path, files.delimiter)
        blank = np.array([has_blank(texts) for texts in _texts(files, rows)], bool)
        if blank.any():
            left_out = counted(int(blank.sum()), "row")
            columns = " or ".join(files.text or ())
            notes.append(f"{left_out} of {path.name} with an empty {columns} left out")
        # 1 and 1.0 are one class, and NaN is none.
        names = rows[files.label].replace(r"^(-?\d+)\.0+$", r"\1", regex=True)
        rows[files.label] = names.mask(names.str.fullmatch(r"\s*(nan)?\s*", case=False), "")
        parts[name] = rows[~blank]
    if {*parts["train"][files.label].str.casefold()} <= {"", "true", "false"}:
        # Programs write True, TRUE and true.
        parts = {
            name: rows.assign(**{str(files.label): rows[files.label].str.capitalize()})
            for name, rows in parts.items()
        }
    return parts if files.split_column is None else _by_column(files, parts["train"])


def _by_column(files: CustomTask, rows: "pd.DataFrame") -> dict[str, "pd.DataFrame"]:
    column = rows[files.split_column]
    values = column.str.strip().str.lower().map(SPLIT_VALUES)
    unknown = column[values.isna()]
    known = ", ".join(SPLIT_VALUES)
    check_values(
        str(files.path),
        {
            f"the split must be one of {known}, got {value!r}": unknown.index[unknown == value]
            for value in unknown.unique()
        },
    )
    if "train" not in set(values):
        raise SclsearchError(f"{files.path}: there are no training rows. Add some.")
    return {name: rows[values == name] for name in values.unique()}


def as_options(files: str | CustomTask) -> list[str]:
    """Return the command-line options that describe the task; for a named task, its name."""
    if isinstance(files, str):
        return ["--task", files]
    options = [
        ("--task", files.path),
        *(("--text", column) for column in files.text or ()),
        ("--label", files.label),
        ("--id", files.id),
        ("--delimiter", "tab" if files.delimiter == "\t" else files.delimiter),
        ("--validation", files.validation),
        ("--test", files.test),
        ("--split-column", files.split_column),
        ("--fractions", files.fractions and ",".join(map(str, files.fractions))),
        ("--metric", files.metric),
    ]
    words = [str(word) for pair in options if pair[1] is not None for word in pair]
    return words + ["--regression"] * files.regression


def _check_options(files: CustomTask) -> None:
    texts = files.text or ()
    if len(texts) not in {1, 2}:
        raise SclsearchError(f"--text: must name one or two columns, got {len(texts)}.")
    if files.split_column is not None:
        others = {
            "--validation, --test": len(files.paths) > 1,
            "--fractions": files.fractions is not None,
        }
        given = ", ".join(option for option, is_given in others.items() if is_given)
        if given:
            raise SclsearchError(
                f"--split-column, {given}: only one of them can set the splits. Leave out the rest."
            )
    if files.fractions is not None:
        _check_fractions(files.fractions, files)
    if files.metric is not None:
        lookup(METRICS, files.metric, "metric")


def _check_fractions(fractions: tuple[float, float, float], files: CustomTask) -> None:
    if not (fractions[0] and all(0 <= share <= 1 for share in fractions)) or not math.isclose(
        sum(fractions), 1
    ):
        raise SclsearchError(
            f"--fractions: train > 0, validation and test must sum to 1, got {list(fractions)}."
        )
    for split, share in (("validation", fractions[1]), ("test", fractions[2])):
        if share and split in files.paths:
            raise SclsearchError(
                f"--fractions: the share of {split} must be 0 with --{split} {files.paths[split]}, "
                f"got {share:g}. Set it to 0, or leave out --{split}."
            )


def _check_classes(files: CustomTask, classes: list[str]) -> None:
    where = f"{files.path}: column {files.label}"
    if len(classes) < 2:
        raise SclsearchError(
            f"{where}: the training rows must have at least two classes, got "
            f"{reprlib.repr(classes)}."
        )
    seen: dict[str, str] = {}
    for name in classes:
        other = seen.setdefault(_visible(name), name)
        if other != name:
            raise SclsearchError(
                f"{where}: the classes {other!a} and {name!a} differ only in invisible characters. "
                "Make them one."
            )
    fractional = any("." in name for name in classes)
    if len(classes) > MANY_NUMBERS and fractional and all(map(_is_number, classes)):
        raise SclsearchError(
            f"{where}: must have classes, got {len(classes)} different numbers with decimals. "
            "Pass --regression if they are scores, or name another label column."
        )


def _is_number(label: str) -> bool:
    return bool(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", label.strip(), re.IGNORECASE))


def _visible(label: str) -> str:
    """Return a normalized label, without outer blanks, zero-width or composed characters."""
    shown = "".join(c for c in label if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", shown).strip()


def _task(files: CustomTask, labels: tuple[str, ...]) -> Task:
    metric = files.metric or ("pearson" if files.regression else "accuracy")
    METRICS[metric].check(len(labels), "--metric")
    return Task(
        name=files.task_name,
        summary=f"{', '.join(files.text or ())} → {files.label}, in {files.path.name}",
        labels=labels,
        metric=metric,
        pair=len(files.text or ()) == 2,
        protocol="plain",
        own=True,
    )


def _notes(task: Task, splits: Mapping[str, Split]) -> Iterator[str]:
    yield from lacking(task, splits)
    folded = {name: _visible(name).casefold() for name in task.labels}
    counted = Counter(folded.values())
    alike = [reprlib.repr(name) for name in task.labels if counted[folded[name]] > 1]
    if alike:
        yield f"classes that differ in case or spaces alone: {', '.join(alike)}"
    if METRICS[task.metric].binary:
        yield f"{task.metric} is of the class {reprlib.repr(task.labels[1])}, the last by name"
    train = splits["train"]
    if task.metric == "accuracy":
        counts = np.bincount(train.y[: train.labeled], minlength=len(task.labels))
        share = counts.max() / counts.sum()
        if share >= IMBALANCED:
            largest = reprlib.repr(task.labels[int(counts.argmax())])
            yield (
                f"{share:.0%} of the training rows are {largest}, and predicting it alone has "
                "that accuracy: --metric macro_f1 counts all classes alike"
            )
    for kind, texts in (
        ("training texts", set(train.texts[: train.labeled])),
        ("texts without a label", set(train.texts[train.labeled :])),
    ):
        for name in ("validation", "test"):
            repeated = sum(text in texts for text in splits[name].texts) if name in splits else 0
            if repeated:
                yield f"{repeated} of {len(splits[name])} {name} texts are also {kind}"


def _source(files: CustomTask, fractions: tuple[float, float, float] | None) -> str:
    if files.split_column is not None:
        return f"{files.path}, split by its column {files.split_column}"
    if fractions is None or not any(fractions[1:]):
        return ", ".join(f"{path} ({name})" for name, path in files.paths.items())
    shares = zip(("train", "validation", "test"), fractions, strict=True)
    drawn = {name: f"{share:.3g}" for name, share in shares if share}
    others = [f", {path} ({name})" for name, path in files.paths.items() if name != "train"]
    return (
        f"{files.path}, drawn {'/'.join(drawn.values())} into {'/'.join(drawn)}"
        f"{'' if files.regression else ', every class in its share'}{''.join(others)}"
    )
