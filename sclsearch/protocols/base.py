"""What a protocol is: how a paper splits, samples, repeats, evaluates, selects and reports."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.replicates import Replicate, all_seeds
from sclsearch.selection.rules import Rule
from sclsearch.tasks.base import Index, Labels, TaskData, first_classes
from sclsearch.tasks.metrics import METRICS

Evaluate = Literal["epoch", "end", "tenth"] | int
"""At the end of each epoch, at the end alone, ten times evenly, or every so many updates."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one split.

    Attributes:
        split: Name of the split.
        index: Row numbers, ascending, `[rows]`.
    """

    split: str
    index: Index

    def labels(self, data: TaskData) -> Labels:
        """Returns the labels of the rows."""
        found: Labels = data.splits[self.split].y[self.index]
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of split and row numbers."""
        return hashlib.sha256(self.split.encode() + b"\n" + self.index.tobytes()).hexdigest()


def by_split(splits: Iterable[Rows]) -> dict[str, Index]:
    """Returns the numbers of all rows of some parts, each row once, by split."""
    found: dict[str, list[Index]] = {}
    for rows in splits:
        found.setdefault(rows.split, []).append(rows.index)
    return {split: np.unique(np.concatenate(indices)) for split, indices in found.items()}


@dataclass(frozen=True, slots=True)
class Splits:
    """The rows that a protocol trains on, selects by and reports.

    Attributes:
        train: What is trained on, or what the training subset is drawn from.
        validation: What selection reads; nothing else does.
        test: What is reported.
        notes: What a reader of the figure must know about the split.
        unlabeled: What stages that read no labels train on; None is the training rows alone.
        held: Rows of validation and test before these were cut: nothing may train on them either.
        paraphrases: SHA-256 of the paraphrases that are read; empty where none are.
    """

    train: Rows
    validation: Rows
    test: Rows
    notes: tuple[str, ...] = ()
    unlabeled: Rows | None = None
    held: tuple[Rows, ...] = ()
    paraphrases: str = ""

    @property
    def rows(self) -> dict[str, Rows]:
        """Each kind of rows; unlabelled ones only where there are some."""
        labeled = {"train": self.train, "validation": self.validation, "test": self.test}
        return labeled if self.unlabeled is None else {**labeled, "unlabelled": self.unlabeled}

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each kind of rows, and of the paraphrases."""
        found = {kind: rows.digest for kind, rows in self.rows.items()}
        return found | ({"paraphrases": self.paraphrases} if self.paraphrases else {})

    @property
    def without_labels(self) -> Rows:
        """What stages that read no labels train on."""
        return self.unlabeled or self.train


@dataclass(frozen=True, slots=True)
class Size:
    """How many training examples there are.

    Attributes:
        total: N in total, classes as in the training split.
        per_class: K of each class.
    """

    total: int | None = None
    per_class: int | None = None

    @classmethod
    def of(cls, total: int | None, per_class: int | None) -> "Size | None":
        """Returns the size that two options give; None where neither does.

        Raises:
            SclsearchError: Both are given.
        """
        if total is not None and per_class is not None:
            raise SclsearchError(
                "--train-size: it must come without --shots, but both are given. Give the number "
                "of training examples in total, or of each class."
            )
        return None if total is None and per_class is None else cls(total, per_class)

    def __str__(self) -> str:
        """Returns `100` or `20-per-class`."""
        return f"{self.total}" if self.per_class is None else f"{self.per_class}-per-class"


def no_training_changes(_rows: int, _batch_size: int) -> Mapping[str, object]:
    """Returns no training fields: the protocol leaves them to the method."""
    return {}


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a paper splits, samples, repeats, evaluates, selects and reports.

    Attributes:
        name: The name on the command line.
        summary: One line for `sclsearch ls protocols`.
        split: Returns the rows for training, validation and test.
        few_shot: Whether a training size must be given (or must not).
        draw: Returns the training subset of a replicate.
        redraw: Returns the rows of a replicate out of those of the split, for a protocol that
            draws validation rows too, or without being told a size.
        replicates: n.
        rule: How seeds score a configuration and which are reported.
        evaluate: When validation is computed.
        max_updates: Updates after which a stage ends, wherever it is; None for no limit.
        classes: How many of a task's classes are taken, the first ones; None for all.
        keep: `best` by validation, the earliest among equals, or `last`.
        model: The paper's encoder.
        metrics: The metric of a task where it is not the task's own.
        training: Fields that the protocol sets, by the number of training rows and of texts in a
            batch; of a method's own fields those that the method has.
        replicate: Returns the seeds of repetition r.
        joined: Paraphrases of each training row that join the training rows with its label.
        scale: Name in `SCALES` if it is scaled; None for the protocol itself.
        repetition: How its replicates differ from the paper's; None if they do not.
    """

    name: str
    summary: str
    split: Callable[[TaskData], Splits]
    replicates: int
    rule: Rule
    evaluate: Evaluate
    keep: Literal["best", "last"]
    model: str
    max_updates: int | None = None
    classes: int | None = None
    few_shot: bool = False
    draw: Callable[[TaskData, Rows, Size, Replicate], Rows] | None = None
    redraw: Callable[[TaskData, Splits, Size | None, Replicate], Splits] | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    training: Callable[[int, int], Mapping[str, object]] = no_training_changes
    replicate: Callable[[int], Replicate] = all_seeds
    joined: int = 0
    scale: str | None = None
    repetition: str | None = None

    @property
    def title(self) -> str:
        """The name in reports."""
        scaled = f" at {self.scale} scale" if self.scale else ""
        return f"{self.name}{scaled}{f', {self.repetition}' if self.repetition else ''}"

    def check_size(self, size: Size | None, few_shot: str) -> None:
        """Refuses a training size, or none, that does not suit the protocol.

        Raises:
            SclsearchError: It does not; the message names `few_shot`, a protocol that takes one.
        """
        if size is not None and not self.few_shot:
            raise SclsearchError(
                f"--protocol {self.name}: it trains on all rows, but a training size is given. "
                f"Leave out the size, or take --protocol {few_shot}."
            )
        if size is None and self.few_shot:
            raise SclsearchError(
                f"--protocol {self.name}: a training size must be given. Pass --train-size N, in "
                "total, or --shots K, of each class."
            )

    def metric(self, data: TaskData) -> str:
        """Returns the name of the metric that selects and is reported."""
        return self.metrics.get(data.task.public_name, data.task.metric)

    def data(self, whole: TaskData) -> TaskData:
        """Returns the task as the protocol takes it: `parts` and `metric` are of that.

        Raises:
            SclsearchError: The task has fewer classes than the protocol takes, or scores.
        """
        if self.classes is None:
            return whole
        task = whole.task
        if len(task.labels) < self.classes:
            there = "scores" if task.regression else f"{len(task.labels)}"
            raise SclsearchError(
                f"--protocol {self.name}: the task must have {self.classes} classes or more, but "
                f"{task.name} has {there}. Take another task."
            )
        return first_classes(whole, self.classes)

    def same_rows(self, size: Size | None) -> bool:
        """Returns whether all replicates have the same rows."""
        return self.redraw is None and (self.draw is None or size is None)

    def splits(self, data: TaskData, size: Size | None, replicate: Replicate) -> Splits:
        """Returns the rows of one replicate.

        Raises:
            SclsearchError: There are too few rows, or none to select by of the metric's class.
        """
        splits = self._parts(data, size, replicate)
        for kind, rows in splits.rows.items():
            if not len(rows.index):
                there = f"of {data.splits[rows.split].labeled} rows"
                if self.classes is not None:
                    there += f" in its first {self.classes} classes"
                raise SclsearchError(
                    f"{data.task.name}: --protocol {self.name} must have {kind} rows, but the "
                    f"{rows.split} split, {there}, leaves none. Add rows there, or take another "
                    "protocol."
                )
        where = f"{data.task.name}, --protocol {self.name}"
        METRICS[self.metric(data)].check_rows(splits.validation.labels(data), data.task, where)
        return splits

    def _parts(self, data: TaskData, size: Size | None, replicate: Replicate) -> Splits:
        splits = self.split(data)
        if self.redraw is not None:
            return self.redraw(data, splits, size, replicate)
        if self.draw is None or size is None:
            return splits
        return replace(splits, train=self.draw(data, splits.train, size, replicate))
