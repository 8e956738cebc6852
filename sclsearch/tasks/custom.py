"""Custom tasks: texts and labels in a user's own files."""

import math
import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sclsearch.arguments import check_fields, expanded
from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.corpus import Hub, download
from sclsearch.tasks.metrics import METRICS
from sclsearch.tasks.stratified import draw_splits, lacking
from sclsearch.tasks.tables import (
    Row,
    Table,
    check_rows,
    finite,
    load_table,
    text_faults,
    to_splits,
)
from sclsearch.tasks.tabular import TableInMemory, write_table

DATA_FOLDER = "sclsearch-data"
_NO_LABEL = (None, -1, "")
HUB_PREFIX = "hf:"
"""Start of the name of a data set on the Hugging Face hub."""
FRACTIONS = (0.8, 0.1, 0.1)
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


@dataclass(frozen=True, slots=True)
class CustomTask:
    """Description of a task in a user's own files.

    The splits come from files, from a column, or from a random draw by fractions. A split with a
    file has fraction 0. If none is given, the fractions are `FRACTIONS`. Paths may be strings.

    Attributes:
        path: File with the training rows, or with all rows; CSV, TSV, JSON Lines or Parquet.
        text: Column of the text, or columns of the two texts.
        label: Column of the label, which may be empty in training rows.
        validation: File with the validation rows.
        test: File with the test rows.
        split_column: Column with `train`, `validation` (or `valid`, `dev`) or `test`.
        fractions: Fractions of train, validation and test, drawn stratified by class.
        metric: Name in `METRICS`; None is `accuracy`, or `pearson` in regression.
        regression: True if labels are scores.
    """

    path: Path
    text: str | Sequence[str]
    label: str
    validation: Path | None = None
    test: Path | None = None
    split_column: str | None = None
    fractions: tuple[float, float, float] | None = None
    metric: str | None = None
    regression: bool = False

    def __post_init__(self) -> None:
        """Convert `text` to a tuple; raise SclsearchError if a field has the wrong type."""
        check_fields(self)
        columns = (self.text,) if isinstance(self.text, str) else tuple(self.text)
        object.__setattr__(self, "text", columns)

    @classmethod
    def from_data(
        cls,
        data: TableInMemory,
        text: str | Sequence[str],
        label: str,
        *,
        name: str,
        validation: TableInMemory | None = None,
        test: TableInMemory | None = None,
        split_column: str | None = None,
        folder: Path | str = DATA_FOLDER,
        **options: Any,
    ) -> Self:
        """Return the task of a pandas data frame or a `datasets.Dataset`.

        Example:
            >>> task = CustomTask.from_data(frame, "text", "label", name="mine")  # doctest: +SKIP

        The rows are written to Parquet files in `folder`, so that a study can resume and its seed
        runs can be repeated. Equal data is written once.

        Args:
            data: Training rows, or all rows.
            text: Column of the text, or columns of the two texts.
            label: Column of the label, which may be empty in training rows.
            name: Name of the task.
            validation: Validation rows.
            test: Test rows.
            split_column: As in `CustomTask`.
            folder: Folder for the files.
            options: Further fields of `CustomTask`: `fractions`, `metric` and `regression`.

        Raises:
            SclsearchError: An argument has the wrong type, a column is missing, or its values have
                no common type.
        """
        columns: list[Any] = list(text) if isinstance(text, list | tuple) else [text]
        columns += [label] if split_column is None else [label, split_column]
        write = partial(write_table, columns=columns, folder=expanded(Path(folder)))
        return cls(
            path=write(data, name=name),
            text=text,
            label=label,
            validation=None if validation is None else write(validation, name=f"{name}-validation"),
            test=None if test is None else write(test, name=f"{name}-test"),
            split_column=split_column,
            **options,
        )

    @classmethod
    def from_hub(cls, name: str, text: str | Sequence[str], label: str, **options: Any) -> Self:
        """Return the task of a data set on the Hugging Face hub, or in the hub's cache.

        Example:
            >>> task = CustomTask.from_hub("owner/name@v1", "text", "label")  # doctest: +SKIP

        The rows are written to files, as in `from_data`. Splits without labels are left out.

        Args:
            name: `owner/name`, or `owner/name/config` if the data set has several parts. An
                appended `@revision` pins a commit, a branch or a tag.
            text: Column of the text, or columns of the two texts.
            label: Column of the label.
            options: As in `from_data`, without its data: `split_column`, `folder`, `fractions`,
                `metric` and `regression`.

        Raises:
            SclsearchError: Neither the hub nor its cache has the data set, or it lacks a column or
                labeled training rows.
        """
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
        splits = {
            SPLIT_VALUES[split]: rows
            for split, rows in found.items()
            if split in SPLIT_VALUES
            and (label not in rows.column_names or any(y not in _NO_LABEL for y in rows[label]))
        }
        if "train" not in splits:
            raise SclsearchError(
                f"{name}: must have a split train with labels, got {', '.join(found)}. Pass a "
                "file with the rows."
            )
        file = "-".join(filter(None, (data_set or owner, config)))
        return cls.from_data(splits.pop("train"), text, label, name=file, **splits, **options)

    @property
    def paths(self) -> Mapping[str, Path]:
        """File of each split that has one; that of `train` may have the rows of all splits."""
        paths = {"train": self.path, "validation": self.validation, "test": self.test}
        return {name: path for name, path in paths.items() if path is not None}

    @property
    def drawn(self) -> tuple[float, float, float] | None:
        """Fractions by which the first file is split; None if it is not split."""
        separate = len(self.paths) > 1 or self.split_column is not None
        return self.fractions or (None if separate else FRACTIONS)


def load_custom_task(files: CustomTask) -> TaskData:
    """Read a task from a user's files.

    The classes are the distinct labels of the training rows, sorted as text. Unlabeled training
    rows come last; only stages that read no labels train on them.
    """
    _check_options(files)
    tables = _load_tables(files)
    unlabeled = _remove_unlabeled(*tables[0])
    classes = None
    if not files.regression:
        names = sorted({row.cells[-1] for row in tables[0][1]["train"]})
        classes = {name: n for n, name in enumerate(names)}
    found: dict[str, Split] = {}
    for table, splits in tables:
        found |= to_splits(table, splits, classes)
    if classes is not None:
        _check_classes(files, list(classes))
    task = _task(files, tuple(classes or ()))
    if files.drawn:
        found |= draw_splits(found["train"], files.drawn, str(files.path))
    if unlabeled:
        found["train"] = found["train"].with_unlabeled([row.cells[:-1] for row in unlabeled])
    return TaskData(task, found, _source(files), notes=tuple(_notes(task, found)))


def unsplit(files: CustomTask) -> CustomTask:
    """Return the task without drawn validation rows, unless the user specified the splits."""
    if files.fractions or files.validation or files.split_column is not None:
        return files
    return replace(files, fractions=(1.0, 0.0, 0.0) if files.test else (0.9, 0.0, 0.1))


def as_options(files: str | CustomTask) -> list[str]:
    """Return the command-line options that describe the task; for a named task, its name."""
    if isinstance(files, str):
        return ["--task", files]
    options = [
        ("--task", files.path),
        *(("--text", column) for column in files.text),
        ("--label", files.label),
        ("--validation", files.validation),
        ("--test", files.test),
        ("--split-column", files.split_column),
        ("--fractions", files.fractions and ",".join(map(str, files.fractions))),
        ("--metric", files.metric),
    ]
    words = [str(word) for pair in options if pair[1] is not None for word in pair]
    return words + ["--regression"] * files.regression


def _check_options(files: CustomTask) -> None:
    if len(files.text) not in {1, 2}:
        raise SclsearchError(f"--text: must name one or two columns, got {len(files.text)}.")
    columns = [*files.text, files.label]
    if files.split_column is not None:
        columns.append(files.split_column)
        others = {
            "--validation, --test": len(files.paths) > 1,
            "--fractions": files.fractions is not None,
        }
        given = ", ".join(option for option, is_given in others.items() if is_given)
        if given:
            raise SclsearchError(
                f"--split-column, {given}: only one of them can set the splits. Leave out the rest."
            )
    if len(set(columns)) < len(columns):
        raise SclsearchError(
            f"--text, --label, --split-column: the columns must differ, got {columns}."
        )
    if files.fractions is not None:
        _check_fractions(files.fractions, files)
    if files.metric is not None:
        lookup(METRICS, files.metric, "metric")
    _check_paths(files)


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


def _check_paths(files: CustomTask) -> None:
    options: dict[Path, str] = {}
    for name, path in files.paths.items():
        option = "--task" if name == "train" else f"--{name}"
        try:
            other = options.setdefault(path.resolve(), option)
        except (RuntimeError, ValueError) as error:  # circular links, or NUL
            raise SclsearchError(f"{option}: invalid path {str(path)!r}: {error}.") from error
        if other != option:
            raise SclsearchError(
                f"{option} {path}: is the same file as {other}. Name another file, or leave it out."
            )


def _load_tables(files: CustomTask) -> list[tuple[Table, dict[str, list[Row]]]]:
    """Return each file's table with its rows by split."""
    columns = (*files.text, files.label)
    if files.split_column is not None:
        table = load_own_table(files.path, (*columns, files.split_column))
        return [(table, _by_column(table))]
    tables = {name: load_own_table(path, columns) for name, path in files.paths.items()}
    return [(table, {name: table.rows}) for name, table in tables.items()]


def load_own_table(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a file; a TSV cell that is quoted as in CSV is a fault, since its quotes would stay."""
    table = load_table(path, columns)
    if path.suffix.lower() == ".tsv":
        quoted = (row.place for row in table.rows if any(map(_is_quoted, row.cells)))
        table.faults.extend(
            (place, "quoted as in CSV, but quotes in a TSV file are text; save the file as CSV")
            for place in quoted
        )
    return table


def _is_quoted(cell: str) -> bool:
    """Return True if a cell is in quotes and the quotes in it are doubled, as in CSV files."""
    inner = cell[1:-1]
    quotes = cell[:1] == cell[-1:] == '"' and '""' in inner
    return quotes and '"' not in inner.replace('""', "")


def _by_column(table: Table) -> dict[str, list[Row]]:
    splits: dict[str, list[Row]] = {}
    for row in table.rows:
        *cells, value = row.cells
        name = SPLIT_VALUES.get(value.strip().lower())
        if name:
            splits.setdefault(name, []).append(Row(row.place, tuple(cells)))
        else:
            known = ", ".join(SPLIT_VALUES)
            table.faults.append((row.place, f"the split must be one of {known}, got {value!r}"))
    return splits


def _remove_unlabeled(table: Table, splits: dict[str, list[Row]]) -> list[Row]:
    """Remove the unlabeled training rows, which may be invalid, and return them."""
    rows = splits.get("train", [])
    unlabeled = [row for row in rows if not row.cells[-1].strip()]
    splits["train"] = [row for row in rows if row.cells[-1].strip()]
    check_rows(table, splits["train"], "labeled training rows" if unlabeled else "training rows")
    table.faults.extend(text_faults((row.place, row.cells[:-1]) for row in unlabeled))
    return unlabeled


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
    if len(classes) > MANY_NUMBERS and fractional and all(finite(name) for name in classes):
        raise SclsearchError(
            f"{where}: must have classes, got {len(classes)} different numbers with decimals. "
            "Pass --regression if they are scores."
        )


def _visible(label: str) -> str:
    """Return a normalized label, without outer blanks, zero-width or composed characters."""
    shown = "".join(c for c in label if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", shown).strip()


def _task(files: CustomTask, labels: tuple[str, ...]) -> Task:
    metric = files.metric or ("pearson" if files.regression else "accuracy")
    METRICS[metric].check(len(labels), "--metric")
    return Task(
        name=files.path.stem,
        summary=f"{', '.join(files.text)} → {files.label}, in {files.path.name}",
        labels=labels,
        metric=metric,
        pair=len(files.text) == 2,
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


def _source(files: CustomTask) -> str:
    if files.split_column is not None:
        return f"{files.path}, split by its column {files.split_column}"
    if files.drawn is None or not any(files.drawn[1:]):
        return ", ".join(f"{path} ({name})" for name, path in files.paths.items())
    shares = zip(("train", "validation", "test"), files.drawn, strict=True)
    drawn = {name: share for name, share in shares if share}
    others = [f", {path} ({name})" for name, path in files.paths.items() if name != "train"]
    return (
        f"{files.path}, drawn {'/'.join(map(str, drawn.values()))} into {'/'.join(drawn)}"
        f"{'' if files.regression else ', every class in its share'}{''.join(others)}"
    )
