"""Rows of a custom task: reading, checks, splits and notes."""

import math
import re
import reprlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError, listed
from sclsearch.randomness import stream
from sclsearch.tasks.base import (
    Split,
    Task,
    TaskData,
    Texts,
    equal_texts,
    held_out,
)
from sclsearch.tasks.custom import SPLIT_VALUES, CustomTask
from sclsearch.tasks.tables import check_values, has_blank, read_table, text_columns, to_split

if TYPE_CHECKING:
    import pandas as pd

MANY_NUMBERS = 20  # numeric classes above which numbers with decimals are taken for scores
MISSING = frozenset({"nan", "n/a", "#n/a", "<na>", "na", "null", "none", "nil", "nat", "-", "?"})
"""Labels that programs write for a missing one, in lower case."""
NUMBER = re.compile(r"\s*([-+]?[\d.]+(e[-+]?\d+)?)?\s*", re.IGNORECASE)
QUOTES = re.compile(r"""(["'`]).*\1|[“‘«].*[”’»]""", re.DOTALL)


def load_custom_task(files: CustomTask, *, on_folds: bool = True) -> TaskData:
    """Read a task from a user's files, `on_folds` as in `CustomTask.drawn`.

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
    if classes is not None and len(classes) < 2:
        raise SclsearchError(
            f"{files.path}: column {files.label}: the training rows must have at least two "
            f"classes, got {reprlib.repr(classes)}."
        )
    if "\0" in "".join(classes or ()):
        raise SclsearchError(
            f"{files.path}: column {files.label}: a class has a NUL character. Remove it."
        )
    splits: dict[str, Split] = {}
    for name, part in parts.items():
        where, rest = str(files.paths.get(name, files.path)), part[part[files.label] != ""]
        if name != "train" and len(rest) < len(part):
            rows = counted(len(part) - len(rest), f"{name} row")
            notes.append(f"{rows} without a label left out")
        ids = _ids(files, rest)
        splits[name] = to_split(_texts(files, rest), rest[files.label], classes, where, ids=ids)
    task = _task(files, tuple(classes or ()))
    drawn = files.drawn(len(splits["train"]), on_folds=on_folds)
    if drawn:
        splits |= draw_splits(splits["train"], drawn, f"{files.path}: column {files.label}")
    _check_extra(files, splits)
    extra = splits.pop("extra", None)
    splits["train"] = _with_others(files, splits["train"], parts["train"][train == ""], extra)
    notes += _notes(task, splits, str(files.label))
    return TaskData(task, splits, _source(files, drawn), notes=tuple(notes))


def _with_others(
    files: CustomTask, train: Split, unlabeled: "pd.DataFrame", extra: Split | None
) -> Split:
    """Return the training rows with those without a label, and with those of `--extra`."""
    if len(unlabeled):
        train = train.with_unlabeled(_texts(files, unlabeled), _ids(files, unlabeled))
    return train if extra is None else train.with_extra(extra)


def _check_extra(files: CustomTask, splits: Mapping[str, Split]) -> None:
    """Raise SclsearchError if a text of `--extra` is validated or tested."""
    held = {text for name, split in splits.items() if name != "extra" for text in split.texts}
    if "extra" in splits and (repeated := [t for t in splits["extra"].texts if t in held]):
        raise SclsearchError(
            f"--extra {files.extra}: {len(repeated)} of its texts are also in the task's rows, the "
            f"first {reprlib.repr(repeated[0][0])}. Remove them: every seed would train on rows "
            "that it validates."
        )


def _texts(files: CustomTask, part: "pd.DataFrame") -> list[Texts]:
    return list(zip(*(part[name] for name in files.text or ()), strict=True))


def _ids(files: CustomTask, part: "pd.DataFrame") -> list[str]:
    return part[files.id].tolist() if files.id else [str(row + 1) for row in part.index]


def _read(files: CustomTask, notes: list[str]) -> dict[str, "pd.DataFrame"]:
    parts = {}
    for name, path in files.paths.items():
        rows = text_columns(read_table(path, files.delimiter), files.columns, str(path))
        blank = np.array([has_blank(texts) for texts in _texts(files, rows)], bool)
        if blank.any():
            left_out = counted(int(blank.sum()), "row")
            columns = " or ".join(files.text or ())
            if blank.all():
                raise SclsearchError(f"{path}: all {left_out} have an empty {columns}. Add texts.")
            notes.append(f"{left_out} of {path.name} with an empty {columns} left out")
        names = rows[files.label].mask(rows[files.label].str.isspace(), "")
        nan = names.str.strip().str.casefold() == "nan"
        if names[~nan].str.fullmatch(NUMBER).all():
            names = names.mask(nan, "")  # among words it may be a class
        rows[files.label] = names
        parts[name] = rows[~blank]
    labels = {label for rows in parts.values() for label in rows[files.label]}
    # 1 and 1.0 are one class if both occur, and programs write True, TRUE and true.
    plain = {label: re.sub(r"^(-?\d+)\.0+$", r"\1", label) for label in labels}
    spelling = {label: name if name in labels else label for label, name in plain.items()}
    if {*parts["train"][files.label].str.casefold()} <= {"", "true", "false"}:
        spelling = {label: label.capitalize() for label in labels}
    parts = {
        name: rows.assign(**{str(files.label): rows[files.label].map(spelling)})
        for name, rows in parts.items()
    }
    if files.split_column is not None:
        parts |= _by_column(files, parts["train"])
    return parts


def _by_column(files: CustomTask, rows: "pd.DataFrame") -> dict[str, "pd.DataFrame"]:
    column = rows[files.split_column]
    values = column.str.strip().str.lower().map(SPLIT_VALUES)
    fault = f"the split must be one of {', '.join(SPLIT_VALUES)}, got "
    unknown = column[values.isna()].items()
    check_values(str(files.path), [(row, f"{fault}{value!r}") for row, value in unknown])
    if "train" not in set(values):
        raise SclsearchError(f"{files.path}: there are no training rows. Add some.")
    return {name: rows[values == name] for name in values.unique()}


def _check_options(files: CustomTask) -> None:
    texts = files.text or ()
    if len(texts) not in {1, 2}:
        raise SclsearchError(f"--text: must name one or two columns, got {len(texts)}.")
    if files.split_column is not None:
        given = ["--validation, --test"] * files.held_out
        given += ["--fractions"] * (files.fractions is not None)
        if given:
            raise SclsearchError(
                f"--split-column, {', '.join(given)}: only one of them can set the splits. Leave "
                "out the rest."
            )
    if files.fractions is not None:
        _check_fractions(files.fractions, files)


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


def doubts(labels: Sequence[str], column: str) -> Iterator[str]:
    """Yield a note for each reason to doubt the class labels, the distinct ones of a column."""
    spellings = defaultdict(list)
    for name in labels:
        visible = "".join(c for c in name if unicodedata.category(c) != "Cf")
        spellings[unicodedata.normalize("NFC", visible).strip().casefold()].append(name)
    alike = [name for names in spellings.values() if len(names) > 1 for name in names]
    missing = [name for plain in spellings.keys() & MISSING for name in spellings[plain]]
    if column in labels:
        yield f"column {column!r} has the name of a class: is there a header?"
    if alike:
        yield f"classes that differ in case, spaces or invisible characters alone: {_shown(alike)}"
    if missing:
        yield f"classes that may mean no label: {_shown(missing)}. Empty these cells to drop them"
    if all(QUOTES.fullmatch(name.strip()) for name in labels):
        yield f"all classes are in quotes: {_shown(labels)}. Remove the quotes"
    numbers = all(map(NUMBER.fullmatch, labels)) and any("." in name for name in labels)
    if numbers and len(labels) > MANY_NUMBERS:
        yield f"{len(labels)} classes are numbers with decimals. Pass --regression for scores"


def _shown(names: Iterable[str]) -> str:
    return listed(map(reprlib.repr, sorted(names)))


def _task(files: CustomTask, labels: tuple[str, ...]) -> Task:
    return Task(
        name=files.task_name,
        summary=f"{', '.join(files.text or ())} → {files.label}, in {files.path.name}",
        labels=labels,
        metric="pearson" if files.regression else "accuracy",
        pair=len(files.text or ()) == 2,
        protocol="plain",
        own=True,
    )


def _notes(task: Task, splits: Mapping[str, Split], column: str) -> Iterator[str]:
    yield from lacking(task, splits)
    yield from [*doubts(task.labels, column), *_contradictions(splits)] if task.labels else ()
    train = splits["train"]
    for kind, texts in (
        ("training texts", set(train.texts[: train.labeled])),
        ("texts without a label", set(train.texts[train.labeled : len(train) - train.extra])),
    ):
        for name in ("validation", "test"):
            repeated = sum(text in texts for text in splits[name].texts) if name in splits else 0
            if repeated:
                yield f"{repeated} of {len(splits[name])} {name} texts are also {kind}"


def _contradictions(splits: Mapping[str, Split]) -> Iterator[str]:
    labels = defaultdict(set)
    for split in splits.values():
        for text, label in zip(split.texts, split.y.tolist(), strict=True):
            if label >= 0:
                labels[text].add(label)
    if both := [text for text, found in labels.items() if len(found) > 1]:
        yield (
            f"{len(both)} of {len(labels)} texts have more than one label, the first "
            f"{reprlib.repr(both[0][0])}: no model can predict all their rows"
        )


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


def draw_splits(
    split: Split, fractions: tuple[float, float, float], where: str
) -> Mapping[str, Split]:
    """Return `train`, `validation` and `test` splits; omit those whose fraction is 0.

    The draw is stratified and deterministic given the rows. `train` has a row of every class. Rows
    with equal texts are in one split, and the draw counts them as one row, of the first one's
    class.

    `where` is the file with the label's column, for the error. The fractions sum to 1.
    """
    rng, groups = stream(0, "fractions"), equal_texts(split.texts)
    rows = len(groups[0])
    validation, test = (max(1, round(share * rows)) if share else 0 for share in fractions[1:])
    classes = 1 if split.y.dtype == np.float64 else len(np.unique(split.y[groups[0]]))
    if rows - validation - test < classes:
        raise SclsearchError(
            f"{where}: has {rows} different texts of {classes} classes, too few for one of each "
            f"class in train and {validation + test} in validation and test. Add rows, name "
            "another label column, or pass --regression for scores."
        )
    held = held_out(split.y, groups, validation + test, rng)
    rest = split.take(np.flatnonzero(held))
    chosen = np.full(len(rest), bool(validation))
    if validation and test:
        chosen = held_out(rest.y, equal_texts(rest.texts), validation, rng)
    parts = (("train", split, ~held), ("validation", rest, chosen), ("test", rest, ~chosen))
    return {name: of.take(np.flatnonzero(rows)) for name, of, rows in parts if rows.any()}


def lacking(task: Task, splits: Mapping[str, Split]) -> Iterator[str]:
    """Yield a message for each split that lacks classes; yield nothing in regression."""
    counts = {
        name: [int((split.y == n).sum()) for n in range(len(task.labels))]
        for name, split in splits.items()
    }
    every = [sum(rows) for rows in zip(*counts.values(), strict=True)]
    for name, rows in counts.items():
        lacks = [
            f"{label!r} ({every[n]} in all)" for n, label in enumerate(task.labels) if not rows[n]
        ]
        if lacks:
            yield f"{name} has no row of class {listed(lacks)}"
