"""Data types of a task and of its loaded rows."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import canonical, digest

DIGESTED_AT_ONCE = 1_000

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Texts = tuple[str, ...]
"""Texts of a row: one text, or the two of a pair."""
Labels = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Task:
    """Labeled text data set with its metric."""

    name: str  # on the command line, `cola`
    summary: str  # line of `sclsearch ls tasks`
    labels: tuple[str, ...]  # of the classes, in the order of their numbers; empty for regression
    metric: str
    pair: bool = False  # a row has two texts
    protocol: str | None = None  # default; None uses that of the method's paper
    # The task with the same rows except for the test. The hub and search spaces use that name.
    like: str | None = None
    # A user's files. Their name may equal that of a published task, whose special treatment in
    # papers does not apply to them.
    own: bool = False

    @property
    def public_name(self) -> str:
        return "" if self.own else self.name

    @property
    def regression(self) -> bool:
        return not self.labels


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of one split."""

    texts: tuple[Texts, ...]
    # Class of each row, [rows] int64; in regression the score, float64. Unlabeled: -1 or NaN.
    y: Labels
    unlabeled: int = 0  # unlabeled rows, which come last; only training splits have any
    ids: tuple[str, ...] = ()  # of each row in a user's file, for people
    extra: int = 0  # labeled rows after the unlabeled ones, which every seed trains on

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labeled(self) -> int:
        return len(self) - self.unlabeled - self.extra

    def take(self, index: Index) -> "Split":
        """Return the rows with the given numbers, which must ascend."""
        extra = int((index >= len(self) - self.extra).sum())
        unlabeled = int((index >= self.labeled).sum()) - extra
        ids = tuple(self.ids[row] for row in index) if self.ids else ()
        texts = tuple(self.texts[row] for row in index)
        return Split(texts, self.y[index], unlabeled, ids, extra)

    def row_id(self, row: int) -> str:
        """Return the identifier of a row; without identifiers its number in the split, from 1."""
        return self.ids[row] if self.ids else str(row + 1)

    def with_unlabeled(self, texts: Sequence[Texts], ids: Sequence[str] = ()) -> "Split":
        """Return the split with unlabeled rows appended."""
        absent = np.full(len(texts), np.nan if self.y.dtype == np.float64 else -1, self.y.dtype)
        y: Labels = np.concatenate([self.y, absent])
        return Split((*self.texts, *texts), y, len(texts), (*self.ids, *ids))

    def with_extra(self, rows: "Split") -> "Split":
        """Return the split with labeled rows appended that every seed trains on."""
        ids = (*self.ids, *rows.ids)
        y: Labels = np.concatenate([self.y, rows.y])
        return Split((*self.texts, *rows.texts), y, self.unlabeled, ids, len(rows))


@dataclass(frozen=True, slots=True)
class TaskData:
    """Task with its rows.

    `splits` always has `train`. It has `validation` and `test` if their labels are available, and
    may have others, such as `validation_mismatched`.
    """

    task: Task
    splits: Mapping[str, Split]
    source: str  # origin of the rows, shown in reports: a folder, a hub revision
    digest: str = ""  # SHA-256 of texts and labels of all splits, without unlabeled rows
    unlabeled_digest: str = ""  # SHA-256 of the unlabeled texts; empty if there are none
    notes: tuple[str, ...] = ()  # for readers of the scores

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", _digest(self.splits))
        if not self.unlabeled_digest:
            unlabeled = {name: one.texts[one.labeled :] for name, one in self.splits.items()}
            found = {name: _texts_digest(texts) for name, texts in unlabeled.items() if texts}
            object.__setattr__(self, "unlabeled_digest", digest(found) if found else "")


def first_classes(data: TaskData, count: int) -> TaskData:
    """Return the task restricted to its first `count` classes; unlabeled rows stay."""
    return TaskData(
        replace(data.task, labels=data.task.labels[:count]),
        {name: split.take(np.flatnonzero(split.y < count)) for name, split in data.splits.items()},
        data.source,
        notes=data.notes,
    )


def _digest(splits: Mapping[str, Split]) -> str:
    rows = {name: _of_rows(split, slice(split.labeled)) for name, split in splits.items()}
    for name, split in splits.items():
        if split.extra:
            rows[f"{name}, extra"] = _of_rows(split, slice(len(split) - split.extra, None))
    return digest(rows)


def _of_rows(split: Split, rows: slice) -> list[str]:
    y = hashlib.sha256(np.ascontiguousarray(split.y[rows]).tobytes()).hexdigest()
    return [_texts_digest(split.texts[rows]), y, str(split.y.dtype)]


def _texts_digest(texts: tuple[Texts, ...]) -> str:
    # Equals `digest(texts)`, which would hold the JSON of millions of texts in memory.
    json = hashlib.sha256(b"[")
    for start in range(0, len(texts), DIGESTED_AT_ONCE):
        rows = canonical(texts[start : start + DIGESTED_AT_ONCE])
        json.update(f"{',' if start else ''}{rows[1:-1]}".encode())
    json.update(b"]")
    return json.hexdigest()


def equal_texts(texts: Sequence[Texts]) -> tuple[Index, Index]:
    """Return the first row of each distinct text, ascending, and the place there of each row."""
    first: dict[Texts, int] = {}
    rows = [first.setdefault(text, row) for row, text in enumerate(texts)]
    distinct, group = np.unique(np.array(rows, np.int64), return_inverse=True)
    return distinct, group


def held_out(y: Labels, groups: tuple[Index, Index], count: int, rng: np.random.Generator) -> Mask:
    """Return which rows a stratified draw of `count` groups holds out, `[rows]`.

    `groups` has the first row of each group, whose class counts, and the place there of each row.
    The other rows have every class.
    """
    first, group = groups
    return ~np.isin(group, stratified(y[first], len(first) - count, rng))


def stratified(y: Labels, size: int, rng: np.random.Generator) -> Index:
    """Return `size` row numbers, ascending, with the classes in the proportions of `y`.

    The shares are rounded by largest remainder; every class of `y` occurs if `size` allows it. In
    regression the rows are drawn uniformly at random.
    """
    if np.issubdtype(y.dtype, np.floating):
        return np.sort(rng.permutation(len(y))[:size]).astype(np.int64)
    classes, counts = np.unique(y, return_counts=True)
    wanted = _shares(counts, size)
    return by_counts(y, dict(zip(classes.tolist(), wanted.tolist(), strict=True)), rng)


def per_class(y: Labels, shots: int, rng: np.random.Generator) -> Index:
    """Return `shots` row numbers of each class, ascending."""
    return by_counts(y, dict.fromkeys(np.unique(y).tolist(), shots), rng)


def _shares(counts: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    exact = counts * (size / counts.sum())
    shares: npt.NDArray[np.int64] = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(-(exact - shares), kind="stable")
    shares[by_remainder[: size - shares.sum()]] += 1
    # A class with a rounded share of 0 takes one row from the largest share.
    for missing in np.flatnonzero(shares == 0):
        if shares.max() > 1:
            shares[shares.argmax()] -= 1
            shares[missing] += 1
    return shares


def by_counts(y: Labels, wanted: Mapping[int, int], rng: np.random.Generator) -> Index:
    """Return row numbers, ascending: the wanted number of each class, or all that it has."""
    chosen = [
        rng.permutation(np.flatnonzero(y == label))[:count] for label, count in wanted.items()
    ]
    return np.sort(np.concatenate(chosen)).astype(np.int64)
