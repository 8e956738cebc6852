"""Data types of a task and of its loaded rows."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import canonical, digest

DIGESTED_AT_ONCE = 1_000

Index = npt.NDArray[np.int64]
Texts = tuple[str, ...]
"""Texts of a row: one text, or the two of a pair."""
Labels = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Task:
    """Labeled text data set with its metric.

    Attributes:
        name: Name on the command line, `cola`.
        summary: One line for `sclsearch ls tasks`.
        labels: Names of the classes, in the order of their numbers; empty for regression.
        metric: Name in `sclsearch.tasks.metrics.METRICS`.
        pair: True if a row has two texts.
        protocol: Name of the default protocol; None uses that of the method's paper.
        like: Name of the task with the same rows except for the test. The hub and the methods'
            search spaces use that name.
        own: True for a user's files. Their name may equal that of a published task, whose special
            treatment in papers does not apply to them.
    """

    name: str
    summary: str
    labels: tuple[str, ...]
    metric: str
    pair: bool = False
    protocol: str | None = None
    like: str | None = None
    own: bool = False

    @property
    def public_name(self) -> str:
        """Name of the published task; empty for a user's own task."""
        return "" if self.own else self.name

    @property
    def regression(self) -> bool:
        """True if rows have a score instead of a class."""
        return not self.labels


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of one split.

    Attributes:
        texts: One tuple per row, with one text or two.
        y: Class of each row, `[rows]` int64; in regression the score, float64. Unlabeled rows have
            -1 or NaN.
        unlabeled: Number of unlabeled rows, which come last; only training splits have any.
        ids: Identifier of each row in a user's file, for people; empty for other rows.
    """

    texts: tuple[Texts, ...]
    y: Labels
    unlabeled: int = 0
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.texts)

    @property
    def labeled(self) -> int:
        """Number of labeled rows, which come first."""
        return len(self) - self.unlabeled

    def take(self, index: Index) -> "Split":
        """Return the rows with the given numbers, which must ascend."""
        unlabeled = int((index >= self.labeled).sum())
        ids = tuple(self.ids[row] for row in index) if self.ids else ()
        return Split(tuple(self.texts[row] for row in index), self.y[index], unlabeled, ids)

    def row_id(self, row: int) -> str:
        """Return the identifier of a row; without identifiers its number in the split, from 1."""
        return self.ids[row] if self.ids else str(row + 1)

    def with_unlabeled(self, texts: Sequence[Texts], ids: Sequence[str] = ()) -> "Split":
        """Return the split with unlabeled rows appended."""
        absent = np.full(len(texts), np.nan if self.y.dtype == np.float64 else -1, self.y.dtype)
        y: Labels = np.concatenate([self.y, absent])
        return Split((*self.texts, *texts), y, len(texts), (*self.ids, *ids))


@dataclass(frozen=True, slots=True)
class TaskData:
    """Task with its rows.

    Attributes:
        task: The task.
        splits: Splits by name: always `train`; `validation` and `test` if their labels are
            available; others by their own name, `validation_mismatched`.
        source: Origin of the rows, for people: a folder, a hub revision.
        digest: SHA-256 of texts and labels of all splits, without unlabeled rows.
        unlabeled_digest: SHA-256 of the unlabeled texts; empty if there are none.
        notes: Remarks about the rows for readers of the scores.
    """

    task: Task
    splits: Mapping[str, Split]
    source: str
    digest: str = field(default="")
    unlabeled_digest: str = field(default="")
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Compute the digests that are not given, from the rows alone."""
        if not self.digest:
            object.__setattr__(self, "digest", _digest(self.splits))
        if not self.unlabeled_digest:
            object.__setattr__(self, "unlabeled_digest", _unlabeled_digest(self.splits))


def first_classes(data: TaskData, count: int) -> TaskData:
    """Return the task restricted to its first `count` classes; unlabeled rows stay."""
    return TaskData(
        replace(data.task, labels=data.task.labels[:count]),
        {name: split.take(np.flatnonzero(split.y < count)) for name, split in data.splits.items()},
        data.source,
        notes=data.notes,
    )


def _digest(splits: Mapping[str, Split]) -> str:
    rows = {
        name: [
            _texts_digest(split.texts[: split.labeled]),
            hashlib.sha256(np.ascontiguousarray(split.y[: split.labeled]).tobytes()).hexdigest(),
            str(split.y.dtype),
        ]
        for name, split in splits.items()
    }
    return digest(rows)


def _unlabeled_digest(splits: Mapping[str, Split]) -> str:
    unlabeled = {name: split.texts[split.labeled :] for name, split in splits.items()}
    found = {name: _texts_digest(texts) for name, texts in unlabeled.items() if texts}
    return digest(found) if found else ""


def _texts_digest(texts: tuple[Texts, ...]) -> str:
    # Equals `digest(texts)`, which would hold the JSON of millions of texts in memory.
    json = hashlib.sha256(b"[")
    for start in range(0, len(texts), DIGESTED_AT_ONCE):
        rows = canonical(texts[start : start + DIGESTED_AT_ONCE])
        json.update(f"{',' if start else ''}{rows[1:-1]}".encode())
    json.update(b"]")
    return json.hexdigest()
