"""Protocols of LaCon (Zhang et al., 2022, sections 3.1, 4.1, 4.2 and 4.5).

The paper's MRPC is the original corpus, with 4076 training and 1725 test rows; GLUE has 3668 and
408.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol, Replicate, Size, Splits, fixed_training
from sclsearch.protocols.draws import class_counts, draw_alike, draw_counts, draw_subset
from sclsearch.protocols.splits import from_train, hold_out
from sclsearch.randomness import stream
from sclsearch.selection.rules import MEAN
from sclsearch.tasks.base import TaskData

WHOLE = frozenset({"mrpc", "rte", "cola"})
MOST_OF_TWO, MOST_OF_MORE = 5000, 1000
HELD_OUT = 0.05
MINORITY = 32
# The paper trains all methods alike (section 3.1); weight decay and clipping are transformers'
# defaults.
SHARED: Mapping[str, object] = {"warmup_ratio": 0.06, "weight_decay": 0.0, "max_grad_norm": 1.0}
METRICS: Mapping[str, str] = {
    "tnews": "macro_f1",
    "fewclue-tnews": "macro_f1",
    "cola": "mcc",
    "mrpc": "accuracy",
    "qqp": "accuracy",
}


def full_rows(data: TaskData, splits: Splits, _size: Size | None, replicate: Replicate) -> Splits:
    """Return at most the paper's number of rows per class, 5 % of them for validation.

    If this keeps all rows, every replicate has the same rows. The three tasks that the paper uses
    whole always keep all rows. In regression there are no classes and therefore no limit.
    """
    if data.task.public_name in WHOLE or data.task.regression:
        return hold_out(data, splits, share=HELD_OUT, seed=0)
    two = len(class_counts(data, splits.train)) == 2
    return _at_most(MOST_OF_TWO if two else MOST_OF_MORE, data, splits, replicate)


def rows_by_classes(
    data: TaskData, splits: Splits, _size: Size | None, replicate: Replicate
) -> Splits:
    """Return at most 1000 rows per class, even with two classes, 5 % of them for validation.

    The paper does not state which classes of a task it uses; here they are the first ones. It does
    not state its validation rows either; here they are drawn as on full data.
    """
    note = f"classes: the first {len(data.task.labels)} classes; the paper does not say which"
    return _at_most(MOST_OF_MORE, data, replace(splits, notes=(*splits.notes, note)), replicate)


def _at_most(most: int, data: TaskData, splits: Splits, replicate: Replicate) -> Splits:
    counts = class_counts(data, splits.train)
    if max(counts.values()) <= most:
        return hold_out(data, splits, share=HELD_OUT, seed=0)
    rng = stream(replicate.subset, "subset")
    train = draw_counts(data, splits.train, dict.fromkeys(counts, most), rng)
    note = f"training: at most {most} rows of each class, drawn anew in each replicate"
    drawn = replace(splits, train=train, notes=(*splits.notes, note))
    return hold_out(data, drawn, share=HELD_OUT, seed=replicate.subset)


def few_shot_rows(
    data: TaskData, splits: Splits, size: Size | None, replicate: Replicate
) -> Splits:
    """Return the training subset of a replicate and as many validation rows from the rest."""
    if size is None:
        raise ValueError("a few-shot protocol is given no size")
    train = draw_subset(data, splits.train, size, replicate)
    return _with_validation(data, replace(splits, train=train), splits, replicate)


def imbalanced_rows(
    data: TaskData, splits: Splits, _size: Size | None, replicate: Replicate, *, rho: int
) -> Splits:
    """Return 32 training rows of the rarer class and ρ times as many of the other class.

    The paper does not state its validation rows here. We draw as many as for training from the
    rest, as in its few-shot setting. The paper does not state its epochs either; we use those of
    full data. The paper does not define the class sizes for more than two classes.
    """
    where = f"--protocol lacon-imbalance:{rho}"
    counts = {} if data.task.regression else class_counts(data, splits.train)
    if len(counts) != 2:
        found = f"{len(counts)} classes" if counts else "scores"
        raise SclsearchError(
            f"{where}: needs a task of two classes, but {data.task.name} has {found}. "
            "Choose another task."
        )
    minority, majority = sorted(counts, key=lambda label: counts[label])
    wanted = {minority: MINORITY, majority: MINORITY * rho}
    faults = [
        f"{where}: needs {rows} training rows of class {data.task.labels[label]!r} of "
        f"{data.task.name}, got {counts[label]}. Choose a smaller imbalance."
        for label, rows in wanted.items()
        if counts[label] < rows
    ]
    if faults:
        raise SclsearchError("\n".join(faults))
    rng = stream(replicate.subset, "subset")
    train = draw_counts(data, splits.train, wanted, rng)
    of_each = " and ".join(f"{rows} of {data.task.labels[n]!r}" for n, rows in wanted.items())
    notes = (*splits.notes, f"training: {of_each}")
    return _with_validation(data, replace(splits, train=train, notes=notes), splits, replicate)


def _with_validation(data: TaskData, drawn: Splits, splits: Splits, replicate: Replicate) -> Splits:
    validation = draw_alike(data, drawn.train, splits.train, replicate.subset)
    rows, wanted = len(validation.index), len(drawn.train.index)
    fewer = f", fewer than the {wanted} for training" if rows < wanted else ""
    notes = (*drawn.notes, f"validation: {rows} other rows of the training split{fewer}")
    return replace(drawn, validation=validation, notes=notes)


FULL = Protocol(
    name="lacon",
    summary="Zhang et al.: at most 5000 rows of each of two classes, 1000 of each of more, "
    "mean of 10",
    split=from_train,
    redraw=full_rows,
    replicates=10,
    rule=MEAN,
    evaluate="epoch",
    keep="best",
    model="bert-base",
    metrics=METRICS,
    training=partial(fixed_training, {**SHARED, "epochs": 10}),
    pretrained_pooler=True,
)

# The paper does not state the number of runs behind its few-shot scores, nor behind those by
# imbalance and by number of classes.
FEW_SHOT = replace(
    FULL,
    name="lacon-fewshot",
    summary="Zhang et al.: K rows of each class, as many for validation, mean of 10",
    redraw=few_shot_rows,
    training=partial(fixed_training, {**SHARED, "epochs": 20}),
    few_shot=True,
    sizes=("20-per-class",),
)


def imbalanced(rho: int) -> Protocol:
    """Return the protocol with ρ times as many rows of one of two classes as of the other."""
    return replace(
        FULL,
        name=f"lacon-imbalance:{rho}",
        summary=f"Zhang et al.: 32 rows of one class, {32 * rho} of the other, mean of 10",
        redraw=partial(imbalanced_rows, rho=rho),
    )


def first_classes(count: int) -> Protocol:
    """Return the protocol with a task's first `count` classes."""
    return replace(
        FULL,
        name=f"lacon-classes:{count}",
        summary=f"Zhang et al.: at most 1000 rows of each of a task's first {count} classes, "
        "mean of 10",
        redraw=rows_by_classes,
        classes=count,
    )
