"""Custom tasks: texts and labels in a user's own files."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from sclsearch.arguments import check_fields
from sclsearch.errors import SclsearchError
from sclsearch.tasks.base import Split, Task, TaskData
from sclsearch.tasks.custom_options import check_options
from sclsearch.tasks.formats import load_table
from sclsearch.tasks.metrics import METRICS
from sclsearch.tasks.stratified import draw_splits, lacking
from sclsearch.tasks.tables import (
    Row,
    Table,
    check_faults,
    check_rows,
    finite,
    row_faults,
    rows_to_split,
    text_faults,
)

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
Splits = list[tuple[Table, dict[str, list[Row]]]]


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


def load_custom_task(files: CustomTask) -> TaskData:
    """Read a task from a user's files.

    The classes are the distinct labels of the training rows, sorted as text. Unlabeled training
    rows come last; only stages that read no labels train on them.

    Raises:
        SclsearchError: An option, a file or a row is invalid.
    """
    check_options(files)
    splits = _parts(files)
    first, splits_of_first = splits[0]
    rows = splits_of_first.get("train", [])
    train = splits_of_first["train"] = [row for row in rows if row.cells[-1].strip()]
    bare = [row for row in rows if not row.cells[-1].strip()]
    check_rows(first, train, "training rows with a label" if bare else "rows for training")
    first.faults.extend(text_faults((row.place, row.cells[:-1]) for row in bare))
    classes = None if files.regression else _classes(train)
    for table, split_rows in splits:
        rows = [row for split in split_rows.values() for row in split]
        check_rows(table, rows)
        check_faults(table, row_faults(rows, classes))
    _check_classes(files, classes)
    labels = tuple(classes or ())
    metric = files.metric
    if metric is None:
        metric = "pearson" if files.regression else "accuracy"
    METRICS[metric].check(len(labels), "--metric")
    task = Task(
        name=files.path.stem,
        summary=f"{', '.join(files.text)} → {files.label}, in {files.path.name}",
        labels=labels,
        metric=metric,
        pair=len(files.text) == 2,
        protocol="plain",
        own=True,
    )
    found = {
        name: rows_to_split(rows, classes) for _, splits in splits for name, rows in splits.items()
    }
    drawn = _drawn(files, found)
    if bare:
        train_split = drawn["train"].with_unlabeled([row.cells[:-1] for row in bare])
        drawn = {**drawn, "train": train_split}
    return TaskData(task, drawn, _source(files), notes=tuple(_notes(task, drawn)))


def unsplit(files: CustomTask) -> CustomTask:
    """Return the task without drawn validation rows, unless the user specified the splits."""
    if files.fractions or files.validation or files.split_column is not None:
        return files
    return replace(files, fractions=(1.0, 0.0, 0.0) if files.test else (0.9, 0.0, 0.1))


def _parts(files: CustomTask) -> Splits:
    columns = (*files.text, files.label)
    if files.split_column is not None:
        table = load_table(files.path, (*columns, files.split_column))
        return [(table, _by_column(table))]
    paths = {"train": files.path, "validation": files.validation, "test": files.test}
    tables = {name: load_table(path, columns) for name, path in paths.items() if path}
    return [(table, {name: table.rows}) for name, table in tables.items()]


def _by_column(table: Table) -> dict[str, list[Row]]:
    splits: dict[str, list[Row]] = {}
    for row in table.rows:
        *cells, told = row.cells
        name = SPLIT_VALUES.get(told.strip().lower())
        if name:
            splits.setdefault(name, []).append(Row(row.place, tuple(cells)))
        else:
            known = ", ".join(SPLIT_VALUES)
            table.faults.append(
                (row.place, f"the split must be one of {known}, but it is {told!r}")
            )
    return splits


def _classes(train: list[Row]) -> dict[str, int]:
    names = sorted({row.cells[-1] for row in train})
    return {name: n for n, name in enumerate(names)}


def visible(label: str) -> str:
    """Return a normalized label, without outer blanks, zero-width or composed characters."""
    shown = "".join(c for c in label if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", shown).strip()


def _check_classes(files: CustomTask, classes: Mapping[str, int] | None) -> None:
    if classes is None:
        return
    if len(classes) < 2:
        raise SclsearchError(
            f"{files.path}: {files.label} must hold two classes or more in the rows for training, "
            f"but it holds {list(classes)}."
        )
    bare: dict[str, str] = {}
    for name in classes:
        other = bare.setdefault(visible(name), name)
        if other != name:
            raise SclsearchError(
                f"{files.path}: {files.label} must hold classes that look different, got "
                f"{other!a} and {name!a}, which differ in invisible characters. Make them one."
            )
    fractional = any("." in name for name in classes)
    if len(classes) > MANY_NUMBERS and fractional and all(finite(name) for name in classes):
        raise SclsearchError(
            f"{files.path}: {files.label} must hold classes, but it holds {len(classes)} different "
            "numbers with decimals. Pass --regression if they are scores."
        )


def _drawn(files: CustomTask, found: Mapping[str, Split]) -> Mapping[str, Split]:
    shares = _shares(files)
    if shares is None:
        return found
    return {**found, **draw_splits(found["train"], shares, str(files.path))}


def _shares(files: CustomTask) -> tuple[float, float, float] | None:
    """Return the fractions by which the first file is split, or None if it is not split."""
    apart = files.validation or files.test or files.split_column is not None
    return files.fractions or (None if apart else FRACTIONS)


def _notes(task: Task, splits: Mapping[str, Split]) -> Iterator[str]:
    yield from lacking(task, splits)
    folded = Counter(name.casefold() for name in task.labels)
    alike = [name for name in task.labels if folded[name.casefold()] > 1]
    if alike:
        yield f"classes that differ in case alone: {', '.join(map(repr, alike))}"
    if METRICS[task.metric].binary:
        yield f"{task.metric} is of the class {task.labels[1]!r}, the last by name"
    train = splits["train"]
    if task.metric == "accuracy" and not task.regression:
        counts = np.bincount(train.y[: train.labeled], minlength=len(task.labels))
        share = counts.max() / counts.sum()
        if share >= IMBALANCED:
            largest = task.labels[int(counts.argmax())]
            yield (
                f"{share:.0%} of the training rows are {largest!r}, and predicting it alone has "
                "that accuracy: --metric macro_f1 counts all classes alike"
            )
    for called, texts in (
        ("training texts", set(train.texts[: train.labeled])),
        ("texts without a label", set(train.texts[train.labeled :])),
    ):
        for name in ("validation", "test"):
            again = sum(text in texts for text in splits[name].texts) if name in splits else 0
            if again:
                yield f"{again} of {len(splits[name])} {name} texts are also {called}"


def _source(files: CustomTask) -> str:
    if files.split_column is not None:
        return f"{files.path}, split by its column {files.split_column}"
    told = {"train": files.path, "validation": files.validation, "test": files.test}
    shares = _shares(files)
    if shares is None or not any(shares[1:]):
        return ", ".join(f"{path} ({name})" for name, path in told.items() if path)
    drawn = {name: share for name, share in zip(told, shares, strict=True) if share}
    others = [f", {told[name]} ({name})" for name in ("validation", "test") if told[name]]
    return (
        f"{files.path}, drawn {'/'.join(map(str, drawn.values()))} into {'/'.join(drawn)}, every "
        f"class in its share{''.join(others)}"
    )
