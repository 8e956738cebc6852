"""Custom tasks: texts and labels in a user's own files, in memory, or in a data set of the hub."""

import hashlib
import logging
import re
import reprlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import BeforeValidator

from sclsearch.arguments import OWN, Option, check_fields
from sclsearch.canonical import one_line
from sclsearch.errors import SclsearchError, listed
from sclsearch.tasks.corpus import Hub, download
from sclsearch.tasks.tables import read_table, text_columns, to_frame

if TYPE_CHECKING:
    import datasets
    import pandas as pd

RowSource = Union[str, Path, "pd.DataFrame", "datasets.Dataset", "datasets.DatasetDict"]
"""Rows of a user: a file, a name on the hub, or data in memory."""
DATA_FOLDER = Path("sclsearch-data")
"""Folder for the rows of data frames and hub data sets."""
HUB_PREFIX = "hf:"
"""Start of the name of a data set on the Hugging Face hub."""
FEW_ROWS = 500
"""Rows of a file with classes below which none is a test row by default."""
# Share of the rows of a larger file that are test rows without a test file, and their limits.
TEST_SHARE, LARGEST_TEST_SHARE, FEWEST_TEST_ROWS, MOST_TEST_ROWS = 0.25, 0.4, 40, 2_000
SPLIT_VALUES: Mapping[str, str] = {
    **{"train": "train", "validation": "validation", "valid": "validation", "val": "validation"},
    **{"dev": "validation", "eval": "validation", "test": "test"},
}
LONGEST_NAME = 200  # bytes of a task's name: file systems allow 255 with the endings
TEXT_NAMES = ("text", "sentence")
LABEL_NAME = "label"


_LOG = logging.getLogger(__name__)
_more = partial(Option, panel=OWN, more=True)


def _numbers(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class CustomTask:
    """Description of a task in a user's own rows.

    The splits come from files, from a column, or from a random draw by fractions. A split with a
    file has fraction 0. If none is given, a quarter of the rows are test rows: at least 40, but at
    most 40 % of a small file, and at most 2,000. Of fewer than 500 rows with classes, none is under
    protocol plain: its folds test on every row. The protocol draws validation rows from the rest.

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
        text: Column of the text, twice for pairs of texts. Default: text or sentence, or the other
            of two columns.
        label: Column of the label. Default: label, or the other of two columns.
        validation: Validation rows.
        test: Test rows.
        extra: Rows that every seed trains on and none validates or tests on, such as a text for
            each class that names it.
        split_column: Column of each row's split: train, validation or test.
        fractions: Fractions of training, validation and test rows, drawn stratified by class. With
            no test rows there is no test score. Example: 0.8,0.1,0.1.
        regression: The labels are numbers.
        id: Column that identifies a row in reports. Default: the row's number.
        delimiter: Delimiter of a CSV file: a character or tab. Default: detected.
        name: Name of the task if the rows are in memory; a file gives its own name.
    """

    path: Path
    text: Annotated[str | Sequence[str] | None, Option(panel=OWN, kind=list[str] | None)] = None
    label: Annotated[str | None, Option(panel=OWN)] = None
    validation: Annotated[Path | None, _more()] = None
    test: Annotated[Path | None, _more()] = None
    extra: Annotated[Path | None, _more()] = None
    split_column: Annotated[str | None, _more()] = None
    fractions: Annotated[
        Annotated[tuple[float, float, float], BeforeValidator(_numbers)] | None,
        _more(kind=str | None),
    ] = None
    regression: Annotated[bool, _more()] = False
    id: Annotated[str | None, _more()] = None
    delimiter: Annotated[str | None, _more()] = None
    name: InitVar[str | None] = None

    def __post_init__(self, name: str | None) -> None:
        """Write rows that are not in a file; raise SclsearchError if a field has the wrong type."""
        in_memory = {}
        for split in ("path", "validation", "test", "extra"):
            rows = getattr(self, split)
            if not isinstance(rows, str | Path | None) or str(rows).startswith(HUB_PREFIX):
                in_memory[split] = rows
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
        others = {"validation": self.validation, "test": self.test, "extra": self.extra}
        return {"train": self.path} | {name: path for name, path in others.items() if path}

    @property
    def held_out(self) -> bool:
        """True if validation or test rows have a file."""
        return self.validation is not None or self.test is not None

    @property
    def task_name(self) -> str:
        return Path(self.path.stem).stem if self.path.suffix.lower() == ".gz" else self.path.stem

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the task reads: texts, label, then those of splits and identifiers."""
        others = (self.label, self.split_column, self.id)
        return (*(self.text or ()), *(name for name in others if name is not None))

    def drawn(self, rows: int, *, on_folds: bool) -> tuple[float, float, float] | None:
        """Return the fractions by which the first file, of so many rows, is split; None if none.

        With `on_folds`, the protocol validates few rows on folds, which then serve as the test.
        """
        if self.fractions or self.held_out or self.split_column is not None:
            return self.fractions
        if on_folds and rows < FEW_ROWS and not self.regression:
            return None
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
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise SclsearchError(f"--delimiter: must be an ASCII character or tab, got {text!r}.")
    return delimiter


def obvious_columns(
    frame: "pd.DataFrame",
    where: str,
    text: Sequence[str] | None = None,
    label: str | None = None,
    others: Collection[str | None] = (),
) -> tuple[Sequence[str] | None, str | None]:
    """Return the columns of the text and of the label, each None if it is not clear.

    The text is in a column with a usual name, or in the only one beside the label. Of two columns,
    it is in the one with more characters. `others` are further columns whose use is known.
    """
    names = [name for name in map(str, frame.columns) if name not in others]
    text, label = _usual_columns(names, text, label)
    if text is None and label is None:
        if len(names) == 1:
            return (names[0],), None
        label = _shorter(frame, names, where) if len(names) == 2 else None
    rest = [name for name in names if name != label and name not in (text or ())]
    if len(names) == 2 and rest:
        text, label = text or tuple(rest), label or rest[0]
    return text, label


def _usual_columns(
    names: Sequence[str], text: Sequence[str] | None, label: str | None
) -> tuple[Sequence[str] | None, str | None]:
    """Return the columns with usual names instead of None."""
    if text is None:
        text = next(((name,) for name in TEXT_NAMES if name in names and name != label), None)
    if label is None and LABEL_NAME in names and LABEL_NAME not in (text or ()):
        label = LABEL_NAME
    return text, label


def _shorter(frame: "pd.DataFrame", names: Sequence[str], where: str) -> str:
    """Return the column with fewer characters."""
    return min(names, key=lambda name: text_columns(frame, [name], where)[name].str.len().sum())


def _found_columns(files: CustomTask, frame: "pd.DataFrame", where: str) -> dict[str, Any]:
    others = (files.split_column, files.id)
    text, label = obvious_columns(frame, where, files.text, files.label, others)
    if text is None or label is None:
        raise SclsearchError(
            f"{where}: the columns of text and label are not clear. Pass --text (twice for a pair "
            f"of texts) and --label; the columns are {column_names(frame, others)}."
        )
    return {"text": text, "label": label}


def column_names(frame: "pd.DataFrame", others: Collection[str | None] = ()) -> str:
    """Return the names of the columns, except the others, for an error message."""
    names = [one_line(name) for name in map(str, frame.columns) if name not in others]
    return listed(names) or "none"


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
    known = {SPLIT_VALUES[name]: name for name in rows if name in SPLIT_VALUES}
    splits = {split: rows[name] for split, name in known.items()}
    if "train" not in splits:
        raise SclsearchError(
            f"--task: must have a split train, got {', '.join(rows)}. Pass the rows alone."
        )
    for split in ("validation", "test"):
        if split in splits and getattr(files, split) is not None:
            raise SclsearchError(f"--{split}: the task has this split. Leave it out.")
    if others := [name for name in rows if name not in known.values()]:
        _LOG.warning("--task: rows of the splits %s are left out", listed(others))
    return {"path": splits.pop("train"), **splits}


def _from_hub(name: str) -> tuple[Mapping[str, Any], str]:
    place, _, revision = name.removeprefix(HUB_PREFIX).partition("@")
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*){0,2}", place):
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
    digest = hashlib.sha256(rows.to_csv(index=False).encode()).hexdigest()[:16]
    path = DATA_FOLDER / digest / f"{name}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{uuid.uuid4().hex}.part")
        rows.to_parquet(part, index=False)
        part.replace(path)
    return path


def as_options(files: str | CustomTask) -> list[str]:
    """Return the command-line options that describe the task; for a named task, its name."""
    if isinstance(files, str):
        return ["--task", files]
    words = ["--task", str(files.path)]
    for field in fields(files)[1:]:
        option, value = f"--{field.name.replace('_', '-')}", getattr(files, field.name)
        if field.name == "text":
            words += [word for column in value or () for word in (option, column)]
        elif value is True:
            words.append(option)
        elif value not in (None, False):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words += [option, "tab" if text == "\t" else text]
    return words
