"""Evaluation protocols: how a paper splits, samples, repeats, evaluates, selects and reports."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.selection.rules import Rule
from sclsearch.tasks.base import Index, Labels, TaskData, first_classes
from sclsearch.tasks.metrics import METRICS

Evaluate = Literal["epoch", "end", "tenth"] | int
"""Evaluation schedule: after each epoch, at the end, at every tenth of training, or every n
updates."""


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
        found: Labels = data.splits[self.split].y[self.index]
        return found

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.split.encode() + b"\n" + self.index.tobytes()).hexdigest()


NO_TEST_ROWS = "no test rows: all scores are of the validation rows, which chose the winner"
"""Note of a split without test rows."""


def by_split(splits: Iterable[Rows]) -> dict[str, Index]:
    """Return the distinct row numbers of several row sets, grouped by split."""
    found: dict[str, list[Index]] = {}
    for rows in splits:
        found.setdefault(rows.split, []).append(rows.index)
    return {split: np.unique(np.concatenate(indices)) for split, indices in found.items()}


@dataclass(frozen=True, slots=True)
class Splits:
    """Training, validation and test rows of a replicate.

    Attributes:
        train: Training rows, or the pool from which the training subset is drawn.
        validation: Rows for model selection; nothing else reads them.
        test: Rows for the reported score; empty if the user's own task has none.
        notes: Remarks about the split for readers of the score.
        unlabeled: Training rows of stages that read no labels; None uses the training rows alone.
        held: Validation and test rows before they were subsampled. Training excludes them too.
        paraphrases: SHA-256 of the paraphrases that training reads; empty if it reads none.
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
        """Rows by kind; includes test rows and unlabeled rows only if there are any."""
        found = {"train": self.train, "validation": self.validation}
        if len(self.test.index):
            found["test"] = self.test
        return found if self.unlabeled is None else {**found, "unlabeled": self.unlabeled}

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each kind of rows, and of the paraphrases if any."""
        found = {kind: rows.digest for kind, rows in self.rows.items()}
        return found | ({"paraphrases": self.paraphrases} if self.paraphrases else {})

    @property
    def without_labels(self) -> Rows:
        return self.unlabeled or self.train


@dataclass(frozen=True, slots=True)
class Size:
    """Number of training examples of a replicate.

    Attributes:
        total: N in total, with the class proportions of the training split.
        per_class: K per class.
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
        """Return `100` or `20-per-class`."""
        return f"{self.total}" if self.per_class is None else f"{self.per_class}-per-class"


@dataclass(frozen=True, slots=True)
class Replicate:
    """Seeds of replicate r: a pure function of r, so that configurations are paired.

    Configurations of one method share every random draw. Different methods share the rows. Their
    stages are aligned from the last one backwards: aligned stages share the order of the rows, the
    initial values of layers of one shape, and dropout as far as they request it alike.

    Attributes:
        number: r.
        subset: Seed of the training subset.
        initialization: Seed of the new layers.
        order: Seed of the data order.
        noise: Seed of dropout and masks.
    """

    number: int
    subset: int
    initialization: int
    order: int
    noise: int

    @property
    def seeds(self) -> dict[str, int]:
        """Seeds that training depends on, given its rows."""
        return {"initialization": self.initialization, "order": self.order, "noise": self.noise}


def all_seeds(number: int) -> Replicate:
    """Return the replicate whose seeds all equal its number."""
    return Replicate(number, number, number, number, number)


LEAST_UPDATES = 100
"""Fewest updates of a stage on few rows, where 10 epochs would be far fewer."""


def least_epochs(rows: int, batch_size: int) -> int:
    """Return the number of epochs that `LEAST_UPDATES` full batches take."""
    return -(-LEAST_UPDATES * min(batch_size, rows) // rows)


def fixed_training(
    fields: Mapping[str, object], _rows: int, _batch_size: int
) -> Mapping[str, object]:
    """Return the given training fields for any number of rows and any batch size."""
    return fields


@dataclass(frozen=True, slots=True)
class Protocol:
    """Evaluation protocol: how a paper splits, samples, repeats, evaluates, selects and reports.

    Attributes:
        name: Name, such as `lacon` or `lacon-classes:4`.
        summary: One line for `sclsearch ls protocols`.
        split: Returns the rows for training, validation and test.
        few_shot: True if a training size is required, False if none is allowed.
        sizes: Training sizes of the paper, as text.
        draw: Returns the training subset of a replicate.
        redraw: Returns the rows of a replicate, given those of the split. For protocols that also
            draw validation rows, or that draw without a given size.
        replicates: Number n of replicates.
        rule: How the seeds of a configuration are aggregated for selection and for the report.
        evaluate: Schedule of the evaluations on the validation rows.
        max_updates: Maximum number of updates per stage; None for no limit.
        classes: Number of classes to keep, the first ones of the task; None keeps all.
        keep: `best` keeps the checkpoint with the best validation score, among equal ones that with
            the lowest validation loss, then the latest. `last` keeps the last one.
        model: The paper's encoder.
        metrics: Metric by task, for tasks that do not use their default metric.
        training: Returns the training fields that the protocol sets, given the number of training
            rows and the batch size in texts. Fields that only some methods have are set for those
            methods.
        replicate: Returns the seeds of replicate r.
        pretrained_pooler: True if the paper's classifiers read BERT's pretrained pooler. A method
            whose head has a new dense+tanh layer by default then reads the checkpoint's pooler, if
            there is one.
        joined: Paraphrases of each training row that are added to the training rows with its label.
        scale: Name in `SCALES` if the protocol is scaled down; None otherwise.
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
    sizes: tuple[str, ...] = ()
    draw: Callable[[TaskData, Rows, Size, Replicate], Rows] | None = None
    redraw: Callable[[TaskData, Splits, Size | None, Replicate], Splits] | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    training: Callable[[int, int], Mapping[str, object]] = field(
        default=partial(fixed_training, {})
    )
    replicate: Callable[[int], Replicate] = all_seeds
    pretrained_pooler: bool = False
    joined: int = 0
    scale: str | None = None
    repetition: str | None = None

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
        return self.metrics.get(data.task.public_name, data.task.metric)

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

    def same_rows(self, size: Size | None) -> bool:
        """Return True if all replicates have the same rows."""
        return self.redraw is None and (self.draw is None or size is None)

    def splits(self, data: TaskData, size: Size | None, replicate: Replicate) -> Splits:
        """Return the rows of one replicate."""
        splits = self.split(data)
        if self.redraw is not None:
            splits = self.redraw(data, splits, size, replicate)
        elif self.draw is not None and size is not None:
            splits = replace(splits, train=self.draw(data, splits.train, size, replicate))
        for kind, rows in {**splits.rows, "test": splits.test}.items():
            if not len(rows.index) and (kind != "test" or NO_TEST_ROWS not in splits.notes):
                where = f"its {rows.split} split with {data.splits[rows.split].labeled} rows"
                if self.classes is not None:
                    where += f" of the first {self.classes} classes"
                raise SclsearchError(
                    f"{data.task.name}: --protocol {self.name} finds no {kind} rows in {where}. "
                    "Add rows there, or choose another protocol."
                )
        where = f"{data.task.name}, --protocol {self.name}"
        METRICS[self.metric(data)].check_rows(splits.validation.labels(data), data.task, where)
        return splits
