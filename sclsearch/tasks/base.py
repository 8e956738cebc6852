"""What a task is, and its rows once they are read."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import canonical, digest

DIGESTED_AT_ONCE = 1_000

Index = npt.NDArray[np.int64]
Texts = tuple[str, ...]
"""What a row holds: one text, or the two of a pair."""
Labels = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Task:
    """A labelled text data set with its metric.

    Attributes:
        name: The name on the command line, `cola`.
        summary: One line for `sclsearch ls tasks`.
        labels: Names of the classes, in the order of their numbers; empty for regression.
        metric: Name in `sclsearch.tasks.metrics.METRICS`.
        pair: Whether a row is two texts.
        protocol: Name of the protocol without `--protocol`; None takes the method's paper's.
        like: Name of the task that it is but for its test rows: the hub has it under that name,
            and methods have their search spaces for that one.
        own: Whether it is of a user's files, which may be called like a task that papers treat in
            a way of their own.
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
        """The name that papers may know it by; empty for a user's own."""
        return "" if self.own else self.name

    @property
    def regression(self) -> bool:
        """Whether rows carry a score instead of a class."""
        return not self.labels


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of one split.

    Attributes:
        texts: One tuple a row, of one text or of two.
        y: Class of each row, `[rows]` int64; the score, float64, in regression. Of a row without
            label -1, or NaN.
        unlabeled: Rows without label, the last ones; only training rows lack some.
    """

    texts: tuple[Texts, ...]
    y: Labels
    unlabeled: int = 0

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.texts)

    @property
    def labeled(self) -> int:
        """Number of rows with a label, the first ones."""
        return len(self) - self.unlabeled

    def take(self, index: Index) -> "Split":
        """Returns some of the rows, numbered in ascending order."""
        unlabeled = int((index >= self.labeled).sum())
        return Split(tuple(self.texts[row] for row in index), self.y[index], unlabeled)

    def with_unlabeled(self, texts: Sequence[Texts]) -> "Split":
        """Returns the rows and, after them, others without label."""
        absent = np.full(len(texts), np.nan if self.y.dtype == np.float64 else -1, self.y.dtype)
        y: Labels = np.concatenate([self.y, absent])
        return Split((*self.texts, *texts), y, len(texts))


@dataclass(frozen=True, slots=True)
class TaskData:
    """A task with its rows.

    Attributes:
        task: What the rows belong to.
        splits: Splits by name: `train` always; `validation` and `test` where there are
            labels for them; others by their own name, `validation_mismatched`.
        source: Where the rows come from, for people: a folder, a hub revision.
        digest: SHA-256 of texts and labels of all splits, without rows that have no label.
        bare_digest: SHA-256 of the texts that have no label; empty if all have one.
        notes: What a reader of the figures must know of the rows.
    """

    task: Task
    splits: Mapping[str, Split]
    source: str
    digest: str = field(default="")
    bare_digest: str = field(default="")
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Fills in the digests, which are functions of the rows alone."""
        if not self.digest:
            object.__setattr__(self, "digest", _digest(self.splits))
        if not self.bare_digest:
            object.__setattr__(self, "bare_digest", _bare_digest(self.splits))


def first_classes(data: TaskData, count: int) -> TaskData:
    """Returns the task of the first so many classes: their rows, and those without a label."""
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


def _bare_digest(splits: Mapping[str, Split]) -> str:
    bare = {name: split.texts[split.labeled :] for name, split in splits.items()}
    found = {name: _texts_digest(texts) for name, texts in bare.items() if texts}
    return digest(found) if found else ""


def _texts_digest(texts: tuple[Texts, ...]) -> str:
    # Equals `digest(texts)`, which would hold the JSON of millions of texts at once.
    json = hashlib.sha256(b"[")
    for start in range(0, len(texts), DIGESTED_AT_ONCE):
        rows = canonical(texts[start : start + DIGESTED_AT_ONCE])
        json.update(f"{',' if start else ''}{rows[1:-1]}".encode())
    json.update(b"]")
    return json.hexdigest()
