"""Evaluation protocols: how a paper splits, samples, repeats, evaluates, selects and reports."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.selection.rules import Rule
from sclsearch.tasks.base import Index, Labels, TaskData, Texts, first_classes
from sclsearch.tasks.metrics import METRICS

Evaluate = Literal["epoch", "end", "tenth"] | int
"""Evaluation schedule: after each epoch, at the end, at every tenth of training, or every n
updates."""
NO_TEST_ROWS = "no test rows: all scores are of the validation rows, which chose the winner"
"""Note of a split without test rows."""
LEAST_UPDATES = 100
"""Fewest updates of a stage on few rows, where 10 epochs would be far fewer."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one split, by their numbers in ascending order, `[rows]`."""

    split: str
    index: Index

    def labels(self, data: TaskData) -> Labels:
        found: Labels = data.splits[self.split].y[self.index]
        return found

    def texts(self, data: TaskData) -> list[Texts]:
        texts = data.splits[self.split].texts
        return [texts[row] for row in self.index]

    def take(self, places: Index) -> "Rows":
        """Return the rows at some places among these."""
        return Rows(self.split, self.index[places])

    def some(self, most: int) -> "Rows":
        """Return at most `most` of the rows, at equal distances."""
        return Rows(self.split, self.index[:: -(-len(self.index) // most) or 1])

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.split.encode() + b"\n" + self.index.tobytes()).hexdigest()


def by_split(splits: Iterable[Rows]) -> dict[str, Index]:
    """Return the distinct row numbers of several row sets, grouped by split."""
    found: dict[str, list[Index]] = {}
    for rows in splits:
        found.setdefault(rows.split, []).append(rows.index)
    return {split: np.unique(np.concatenate(indices)) for split, indices in found.items()}


@dataclass(frozen=True, slots=True)
class Splits:
    """Training, validation and test rows of a replicate."""

    train: Rows
    validation: Rows  # for model selection; nothing else reads them
    test: Rows  # empty if the user's own task has none
    notes: tuple[str, ...] = ()  # for readers of the score
    unlabeled: Rows | None = None  # of stages that read no labels; None uses `train` alone
    held: tuple[Rows, ...] = ()  # validation and test rows before they were subsampled
    paraphrases: str = ""  # SHA-256 of the paraphrases that training reads, if any

    def noted(self, note: str) -> "Splits":
        return replace(self, notes=(*self.notes, note))

    @property
    def rows(self) -> dict[str, Rows]:
        """Rows by kind; includes test rows and unlabeled rows only if there are any."""
        found = {"train": self.train, "validation": self.validation}
        if len(self.test.index):
            found["test"] = self.test
        return found if self.unlabeled is None else {**found, "unlabeled": self.unlabeled}

    @property
    def digests(self) -> dict[str, str]:
        found = {kind: rows.digest for kind, rows in self.rows.items()}
        return found | ({"paraphrases": self.paraphrases} if self.paraphrases else {})

    @property
    def without_labels(self) -> Rows:
        return self.unlabeled or self.train


@dataclass(frozen=True, slots=True)
class Size:
    """Number of training examples of a replicate: in total, or of each class.

    A total has the class proportions of the training split.
    """

    total: int | None = None
    per_class: int | None = None

    @classmethod
    def of(cls, total: int | None, per_class: int | None) -> "Size | None":
        """Return the size of one option, or None without one; raise SclsearchError for both."""
        if total is not None and per_class is not None:
            raise SclsearchError(
                "--train-size: cannot be combined with --shots. Give the number of training "
                "examples in total, or of each class."
            )
        return None if total is None and per_class is None else cls(total, per_class)

    def __str__(self) -> str:
        return f"{self.total}" if self.per_class is None else f"{self.per_class}-per-class"


@dataclass(frozen=True, slots=True)
class Replicate:
    """Seeds of replicate r, `number`: a pure function of r, so that configurations are paired.

    Configurations of one method share every random draw. Different methods share the rows. Their
    stages are aligned from the last one backwards: aligned stages share the order of the rows, the
    initial values of layers of one shape, and dropout as far as they request it alike.
    """

    number: int
    subset: int
    initialization: int
    order: int
    noise: int

    @property
    def seeds(self) -> dict[str, int]:
        return {"initialization": self.initialization, "order": self.order, "noise": self.noise}


def all_seeds(number: int) -> Replicate:
    """Return the replicate whose seeds all equal its number."""
    return Replicate(number, number, number, number, number)


def least_epochs(rows: int, batch_size: int) -> int:
    """Return the number of epochs that `LEAST_UPDATES` full batches take."""
    return -(-LEAST_UPDATES * min(batch_size, rows) // rows)


def _apart(data: TaskData, splits: Splits) -> Splits:
    """Leave out validation and test rows whose texts are in earlier rows of the same split."""

    def others(rows: Rows, *before: Rows) -> Rows:
        texts = {text for one in before if one.split == rows.split for text in one.texts(data)}
        new = [text not in texts for text in rows.texts(data)] if texts else True
        return rows.take(np.flatnonzero(np.broadcast_to(new, len(rows.index))))

    validation, test = others(splits.validation, splits.train), splits.test
    if test.split != validation.split or not np.isin(test.index, validation.index).any():
        test = others(test, splits.train, validation)
    kept = len(validation.index) + len(test.index)
    if left_out := len(splits.validation.index) + len(splits.test.index) - kept:
        note = f"{left_out} validation and test rows left out: their texts are also in other rows"
        splits = replace(splits, validation=validation, test=test).noted(note)
    return splits


@dataclass(frozen=True, slots=True)
class Protocol:
    """Evaluation protocol: a function that chooses the rows, and the constants of a paper."""

    name: str
    summary: str
    rows: Callable[[TaskData, Size | None, Replicate], Splits]  # `splits` also checks them
    replicates: int
    rule: Rule
    evaluate: Evaluate
    # `best` keeps the checkpoint with the best validation score, among equal ones that with the
    # lowest validation loss, then the latest. `last` keeps the last one.
    keep: Literal["best", "last"]
    model: str  # the paper's encoder
    max_updates: int | None = None  # per stage
    enough: bool = False  # epochs left open give each stage `LEAST_UPDATES`
    classes: int | None = None  # number of classes to keep, the first ones of the task
    few_shot: bool = False  # a training size is required; otherwise none is allowed
    sizes: tuple[str, ...] = ()  # training sizes of the paper, as text
    metrics: Mapping[str, str] = field(default_factory=dict)  # by task, if not its default metric
    chosen_metric: str | None = None  # that of the user
    # Fields that the protocol sets, and its epochs for a number of training rows and a batch size.
    # Fields that only some methods have are set for those methods.
    training: Mapping[str, object] = field(default_factory=dict)
    epochs: Callable[[int, int], Mapping[str, int]] = lambda _rows, _batch_size: {}
    replicate: Callable[[int], Replicate] = all_seeds
    # The paper's classifiers read BERT's pretrained pooler. A method whose head has a new dense and
    # tanh layer by default then reads the checkpoint's pooler, if there is one.
    pretrained_pooler: bool = False
    joined: int = 0  # paraphrases of each training row that are added with its label
    scale: Literal["laptop"] | None = None  # if the protocol is scaled down
    repetition: str | None = None  # how its replicates differ from the paper's, if they do
    folds: int | None = None  # of the training rows, on which the replicates validate in turn

    @property
    def title(self) -> str:
        scaled = f" at {self.scale} scale" if self.scale else ""
        return f"{self.name}{scaled}{f', {self.repetition}' if self.repetition else ''}"

    def check_size(self, size: Size | None, few_shot: str) -> None:
        """Raise SclsearchError if the size does not suit the protocol, or is missing.

        The message names `few_shot`, a protocol that takes a size.
        """
        if size is not None and not self.few_shot:
            raise SclsearchError(
                f"--protocol {self.name}: trains on all rows, got a training size. "
                f"Leave out the size, or pass --protocol {few_shot}."
            )
        if size is None and self.few_shot:
            raise SclsearchError(
                f"--protocol {self.name}: needs a training size. Pass --train-size N, in total, or "
                "--shots K, of each class."
            )

    def metric(self, data: TaskData) -> str:
        return self.chosen_metric or self.metrics.get(data.task.public_name, data.task.metric)

    def data(self, whole: TaskData) -> TaskData:
        """Return the task with the protocol's classes only, as `splits` and `metric` expect it."""
        if self.classes is None:
            return whole
        task = whole.task
        if len(task.labels) < self.classes:
            found = "scores" if task.regression else f"{len(task.labels)}"
            raise SclsearchError(
                f"--protocol {self.name}: needs a task of at least {self.classes} classes, but "
                f"{task.name} has {found}. Choose another task."
            )
        return first_classes(whole, self.classes)

    def splits(self, data: TaskData, size: Size | None, replicate: Replicate) -> Splits:
        """Return the rows of one replicate; raise SclsearchError if some are missing."""
        splits = self.rows(data, size, replicate)
        if data.task.own:
            splits = _apart(data, splits)
        for kind, rows in {**splits.rows, "test": splits.test}.items():
            if not len(rows.index) and (kind != "test" or NO_TEST_ROWS not in splits.notes):
                where = f"its {rows.split} split with {data.splits[rows.split].labeled} rows"
                if self.classes is not None:
                    where += f" of the first {self.classes} classes"
                raise SclsearchError(
                    f"{data.task.name}: --protocol {self.name} finds no {kind} rows in {where}. "
                    "Add rows there, train on fewer, or choose another protocol."
                )
        for kind, rows in (("validation", splits.validation), ("test", splits.test)):
            if len(rows.index):
                where = f"{data.task.name}, --protocol {self.name}: {kind}"
                METRICS[self.metric(data)].check_rows(rows.labels(data), data.task, where)
        return splits
