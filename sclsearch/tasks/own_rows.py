"""Rows of a custom task: reading, checks, splits and notes."""

import math
import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError, listed
from sclsearch.randomness import stream
from sclsearch.tasks.base import (
    Index,
    Labels,
    Split,
    Task,
    TaskData,
    Texts,
    equal_texts,
    stratified,
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
NAMES = ("train", "validation", "test")
"""Names of the splits, in the order in which they get a row of every class."""


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
    if classes is not None:
        _check_classes(files, classes)
        if files.label in classes:
            notes.append(f"column {files.label!r} has the name of a class: is there a header?")
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
    notes += _notes(task, splits)
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
    if all(QUOTES.fullmatch(name.strip()) for name in classes):
        raise SclsearchError(
            f"{where}: all classes are in quotes, such as {reprlib.repr(classes[0])}. Remove the "
            'quotes, or write them as in CSV: ", doubled within a cell.'
        )
    fractional = any("." in name for name in classes)
    numeric = all(map(NUMBER.fullmatch, classes))
    if len(classes) > MANY_NUMBERS and fractional and numeric:
        raise SclsearchError(
            f"{where}: must have classes, got {len(classes)} different numbers with decimals. "
            "Pass --regression if they are scores, or name another label column."
        )


def _visible(label: str) -> str:
    """Return a normalized label, without outer blanks, zero-width or composed characters."""
    shown = "".join(c for c in label if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", shown).strip()


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


def _notes(task: Task, splits: Mapping[str, Split]) -> Iterator[str]:
    yield from lacking(task, splits)
    yield from _doubtful_classes(task.labels)
    train = splits["train"]
    yield from _contradictions(splits) if task.labels else ()
    for kind, texts in (
        ("training texts", set(train.texts[: train.labeled])),
        ("texts without a label", set(train.texts[train.labeled : len(train) - train.extra])),
    ):
        for name in ("validation", "test"):
            repeated = sum(text in texts for text in splits[name].texts) if name in splits else 0
            if repeated:
                yield f"{repeated} of {len(splits[name])} {name} texts are also {kind}"


def _doubtful_classes(labels: Sequence[str]) -> Iterator[str]:
    folded = [_visible(name).casefold() for name in labels]
    counts = Counter(folded)
    named = [*zip(map(reprlib.repr, labels), folded, strict=True)]
    if alike := [name for name, one in named if counts[one] > 1]:
        yield f"classes that differ in case or spaces alone: {listed(alike)}"
    if missing := [name for name, one in named if one in MISSING]:
        yield f"classes that may mean no label: {listed(missing)}. Empty these cells to drop them"


def _contradictions(splits: Mapping[str, Split]) -> Iterator[str]:
    found: dict[Texts, float] = {}
    both: dict[Texts, None] = {}
    for split in splits.values():
        for text, label in zip(split.texts, split.y.tolist(), strict=True):
            if label >= 0 and found.setdefault(text, label) != label:
                both[text] = None
    if both:
        yield (
            f"{len(both)} of {len(found)} texts have more than one label, the first "
            f"{reprlib.repr(next(iter(both))[0])}: no model can predict all their rows"
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

    The draw is deterministic given the rows. `train` has a row of every class. So have `validation`
    and then `test`, as far as the class has enough rows and the split enough places. Rows with
    equal texts are in one split, and the draw counts them as one row, of the first one's class.

    `where` is the file with the label's column, for the error. The fractions sum to 1.
    """
    rng = stream(0, "fractions")
    first, group = equal_texts(split.texts)
    y, rows = split.y[first], len(first)
    held_out = [max(1, round(share * rows)) if share else 0 for share in fractions[1:]]
    size = rows - sum(held_out)
    classes = 1 if y.dtype == np.float64 else len(np.unique(y))
    if size < classes:
        raise SclsearchError(
            f"{where}: has {rows} different texts of {classes} classes, too few for "
            f"one of each class in train and {sum(held_out)} in validation and test. Add rows, or "
            "name another label column."
        )
    train = stratified(y, size, rng)
    held = np.setdiff1d(np.arange(rows), train)
    tested = held[stratified(y[held], held_out[1], rng)] if held_out[1] else held[:0]
    place = np.ones(rows, np.int64)
    place[train], place[tested] = 0, 2
    if y.dtype != np.float64:
        _exchange(y, place, rng)
    drawn = {name: np.flatnonzero(place[group] == number) for number, name in enumerate(NAMES)}
    return {name: split.take(index) for name, index in drawn.items() if len(index)}


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


def _exchange(y: Labels, place: Index, rng: np.random.Generator) -> None:
    """Give each split a row of each class that it lacks, in exchange for one of its largest class.

    The row comes from the split with the most rows to spare. A split must keep one row of the
    class, unless it comes later in `NAMES`. `place`, the number of each row's split, is changed.
    """
    classes, kind = np.unique(y, return_inverse=True)
    cells = np.bincount(place * len(classes) + kind, minlength=len(NAMES) * len(classes))
    counts = cells.reshape(len(NAMES), len(classes))  # [splits, C]
    for to in (1, 2):
        for missing in np.flatnonzero(counts[to] == 0):
            most = counts[to].argmax()
            spare = counts[:, missing] - (np.arange(len(NAMES)) < to)
            of = spare.argmax()
            if spare[of] < 1 or counts[to, most] < 2:
                continue
            comes = rng.choice(np.flatnonzero((place == of) & (kind == missing)))
            goes = rng.choice(np.flatnonzero((place == to) & (kind == most)))
            place[comes], place[goes] = to, of
            for split, change in ((to, 1), (of, -1)):
                counts[split, missing] += change
                counts[split, most] -= change
