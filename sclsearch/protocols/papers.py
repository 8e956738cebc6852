"""Protocols of the papers, and `plain` for a user's own files.

- Gunel et al. (2021), sections 4.1 and 4.2 (arXiv v1).
- SupCL-Seq (2021), section 3 and appendix A.
- CMLM (Luo et al., 2021), sections 4.1, 4.3, 4.5 and 4.7. Its MRPC scores fit the 1725 test rows of
  the original corpus; GLUE has 408. Every subset is drawn independently, so subsets overlap; none
  has a row twice. On MNLI-MM the matched rows are validation and all mismatched rows are the test.
- LaCon (Zhang et al., 2022), sections 3.1, 4.1, 4.2 and 4.5. Its MRPC is the original corpus, with
  4076 training and 1725 test rows; GLUE has 3668 and 408.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Protocol, Replicate, Rows, Size, Splits, least_epochs
from sclsearch.protocols.rows import (
    SAME_ROWS,
    class_counts,
    draw_per_class,
    draw_subset,
    draw_validation,
    from_train,
    hold_out,
    plain_pool,
    split_dev,
    validation_labels,
    whole,
)
from sclsearch.randomness import stream
from sclsearch.selection.rules import MEAN, Rule, Top
from sclsearch.tasks.base import TaskData


def gunel_rows(
    data: TaskData, size: Size | None, replicate: Replicate, *, overlap: bool = False
) -> Splits:
    """Return at most 500 validation rows, half of the others as test, and the training subset."""
    splits = split_dev(data, cap=500, overlap=overlap)
    if size is None:
        return splits
    return replace(splits, train=draw_subset(data, splits.train, size, replicate))


def gunel_few_shot_epochs(rows: int, batch_size: int) -> Mapping[str, int]:
    """Return the epochs of training and of a linear probe: at least 100 updates and 10 epochs.

    The paper does not state its training length. With 20 rows 10 epochs are only 20 updates.
    """
    epochs = max(10, least_epochs(rows, batch_size))
    return {"epochs": epochs, "probe_epochs": epochs}


GUNEL_FULL = Protocol(
    name="gunel-full",
    summary="Gunel et al.: all training rows, 10 seeds, ranked by their mean, best seed reported",
    rows=gunel_rows,
    replicates=10,
    rule=Rule(score=Top(), report=Top(1)),
    evaluate="epoch",
    keep="best",
    model="roberta-large",
    # The paper reports accuracy everywhere, on CoLA too.
    metrics=dict.fromkeys(("cola", "mrpc", "qqp"), "accuracy"),
)
GUNEL_FULL_OVERLAP = replace(
    GUNEL_FULL,
    name="gunel-full-overlap",
    summary="gunel-full with 500 validation rows even where they overlap the test rows",
    rows=partial(gunel_rows, overlap=True),
)
GUNEL_FEW_SHOT = replace(
    GUNEL_FULL,
    name="gunel-fewshot",
    summary="Gunel et al.: N training rows, 10 subsets, top 3 of 10 by validation",
    rule=Rule(score=Top(3), report=Top(3)),
    evaluate=20,  # "at various epochs" (section 4.1); with 20 rows an epoch is 2 updates
    few_shot=True,
    sizes=("20", "100", "1000"),
    epochs=gunel_few_shot_epochs,
)
GUNEL_NOISY = replace(
    GUNEL_FEW_SHOT,
    name="gunel-noisy",
    summary="gunel-fewshot with three paraphrases of each training row among them",
    joined=3,  # section 4.2: three augmented examples per supervised example
)


def same_rows(data: TaskData, _size: Size | None, _replicate: Replicate) -> Splits:
    """Return the validation split as both validation and test, as SupCL-Seq reports GLUE.

    Some tasks differ from another task in their test rows alone, for example mismatched MNLI. For
    these the test split is both, because the validation split would give the other task's score.
    """
    train, tested = whole(data, "train"), "test" in data.splits
    if data.task.like is not None and tested:
        rows = whole(data, "test")
        return Splits(train, rows, rows, (SAME_ROWS,))
    rows = Rows("validation", np.arange(len(validation_labels(data))))
    unused = ["the test split is not used: scores are of the validation split"] * tested
    return Splits(train, rows, rows, (SAME_ROWS, *unused))


def held_out_rows(data: TaskData, _size: Size | None, _replicate: Replicate) -> Splits:
    """Return a tenth of the training rows as validation: on RTE about its validation split."""
    return hold_out(data, from_train(data), share=0.1, seed=0)


SUPCL_SEQ = Protocol(
    name="supcl-seq",
    summary="SupCL-Seq: all training rows; chosen and reported on the same validation rows",
    rows=same_rows,
    # The paper prints one score per task and does not state the number of seeds.
    replicates=5,
    rule=MEAN,
    evaluate="epoch",
    keep="last",
    model="bert-base",
    pretrained_pooler=True,
)
SUPCL_SEQ_HELD_OUT = replace(
    SUPCL_SEQ,
    name="supcl-seq-heldout",
    summary="supcl-seq chosen on a tenth of the training rows, reported on the validation rows",
    rows=held_out_rows,
)

CMLM_SUBSETS = 5
# Epochs of (fine-tuning, post-training) by the number of training rows: about 700 updates with
# batches of 16, and 650 with batches of 8.
CMLM_EPOCHS: Mapping[int, tuple[int, int]] = {20: (350, 200), 100: (100, 50), 1000: (10, 5)}
CMLM_TRAINING: Mapping[str, object] = {
    "warmup_ratio": 0.0,
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
}
"""Settings of CMLM's paper, which trains all methods alike.

The paper names only AdamW. Its authors' README has no warm-up. It omits weight decay and clipping,
so the defaults of transformers 2.8 apply: no weight decay, gradients clipped at 1.
"""


def cmlm_rows(data: TaskData, size: Size | None, replicate: Replicate) -> Splits:
    """Return 500 random validation rows; the test is the others, or a labeled test split.

    500 validation rows are more than RTE has. Its scores in the paper are multiples of 1/77, so its
    test has the 77 rows that 200 validation rows leave. No other test is smaller; tasks with still
    fewer rows have half of them for validation.
    """
    rows, most = len(validation_labels(data)), 500
    order, train = stream(0, "validation").permutation(rows), whole(data, "train")
    if "test" in data.splits:
        chosen, test, notes = min(most, rows), whole(data, "test"), []
    else:
        chosen = next((one for one in (most, 200) if rows - one >= 77), rows // 2)
        limit = 2000 if data.task.public_name == "qqp" else None
        test = Rows("validation", np.sort(order[chosen:][:limit]))
        drawn = f"{limit} random of " if len(test.index) < rows - chosen else ""
        notes = [f"test: {drawn}the other {rows - chosen} rows of the validation split"]
    fewer = f", fewer than the protocol's {most}" if chosen < most else ""
    notes.insert(0, f"validation: {chosen} random rows{fewer}")
    if size is not None:
        train = draw_subset(data, train, size, replicate, as_they_fall=True)
    return Splits(train, Rows("validation", np.sort(order[:chosen])), test, tuple(notes))


def cmlm_replicate(number: int) -> Replicate:
    """Return replicate r: subset r mod 5, trained with seed r div 5.

    The paper's seeds are 31, 42 and 53; further replicates continue in steps of 11.
    """
    turn, subset = divmod(number, CMLM_SUBSETS)
    seed = 31 + 11 * turn
    return Replicate(number, subset, initialization=seed, order=seed, noise=seed)


def cmlm_few_shot_epochs(rows: int, _batch_size: int) -> Mapping[str, int]:
    """Return the paper's epochs; for other sizes about as many updates, and at least 3 epochs."""
    between = [max(3, total // -(-rows // size)) for total, size in ((700, 16), (650, 8))]
    return dict(zip(("epochs", "post_epochs"), CMLM_EPOCHS.get(rows, between), strict=True))


CMLM_FEW_SHOT = Protocol(
    name="cmlm-fewshot",
    summary="Luo et al.: N training rows as they fall, 5 subsets x 3 seeds, mean of 15",
    rows=cmlm_rows,
    replicates=15,
    rule=MEAN,
    evaluate=100,
    keep="best",
    model="roberta-base",
    few_shot=True,
    sizes=tuple(map(str, CMLM_EPOCHS)),
    metrics=dict.fromkeys(("mrpc", "qqp"), "accuracy"),
    training=CMLM_TRAINING,
    epochs=cmlm_few_shot_epochs,
    replicate=cmlm_replicate,
)
CMLM_FULL = replace(
    CMLM_FEW_SHOT,
    name="cmlm-full",
    summary="Luo et al.: all training rows, 3 seeds, 3 epochs in both phases, mean",
    replicates=3,
    few_shot=False,
    training={**CMLM_TRAINING, "learning_rate": 3e-5, "post_learning_rate": 3e-5},
    epochs=lambda _rows, _batch_size: {"epochs": 3, "post_epochs": 3},
    # Replicate r has all rows and seed r.
    replicate=lambda number: replace(cmlm_replicate(number * CMLM_SUBSETS), number=number),
)

MOST_OF_TWO, MOST_OF_MORE, MINORITY = 5000, 1000, 32
TRANSFORMERS_DEFAULTS: Mapping[str, object] = {"weight_decay": 0.0, "max_grad_norm": 1.0}
"""Weight decay and clipping of transformers' Trainer, where LaCon's paper states none."""


def lacon_rows(data: TaskData, _size: Size | None, replicate: Replicate) -> Splits:
    """Return at most the paper's number of rows per class, 5 % of them for validation.

    If this keeps all rows, every replicate has the same rows. The three tasks that the paper uses
    whole always keep all rows. In regression there are no classes and therefore no limit.
    """
    splits = from_train(data)
    if data.task.public_name in {"mrpc", "rte", "cola"} or data.task.regression:
        return hold_out(data, splits, share=0.05, seed=0)
    two = len(class_counts(data, splits.train)) == 2
    return _capped(MOST_OF_TWO if two else MOST_OF_MORE, data, splits, replicate)


def rows_by_classes(data: TaskData, _size: Size | None, replicate: Replicate) -> Splits:
    """Return at most 1000 rows per class, even with two classes, 5 % of them for validation.

    The paper states neither which classes of a task it uses, here the first ones, nor its
    validation rows, here drawn as on full data.
    """
    note = f"classes: the first {len(data.task.labels)} classes; the paper does not say which"
    return _capped(MOST_OF_MORE, data, from_train(data).noted(note), replicate)


def _capped(most: int, data: TaskData, splits: Splits, replicate: Replicate) -> Splits:
    counts = class_counts(data, splits.train)
    if max(counts.values()) <= most:
        return hold_out(data, splits, share=0.05, seed=0)
    rng = stream(replicate.subset, "subset")
    train = draw_per_class(data, splits.train, dict.fromkeys(counts, most), rng)
    note = f"training: at most {most} rows of each class, drawn anew in each replicate"
    drawn = replace(splits, train=train).noted(note)
    return hold_out(data, drawn, share=0.05, seed=replicate.subset)


def lacon_few_shot_rows(data: TaskData, size: Size | None, replicate: Replicate) -> Splits:
    """Return the training subset of a replicate and as many validation rows from the rest."""
    if size is None:
        raise ValueError("a few-shot protocol is given no size")
    splits = from_train(data)
    train = draw_subset(data, splits.train, size, replicate)
    return _with_validation(data, replace(splits, train=train), replicate)


def imbalanced_rows(
    data: TaskData, _size: Size | None, replicate: Replicate, *, rho: int
) -> Splits:
    """Return 32 training rows of the rarer class and ρ times as many of the other class.

    The paper states neither its validation rows here nor its epochs. We draw as many validation
    rows as for training, as in its few-shot setting, and use the epochs of full data. The paper
    does not define the class sizes for more than two classes.
    """
    splits, where = from_train(data), f"--protocol lacon-imbalance:{rho}"
    counts = {} if data.task.regression else class_counts(data, splits.train)
    if len(counts) != 2:
        found = f"{len(counts)} classes" if counts else "scores"
        raise SclsearchError(
            f"{where}: needs a task of two classes, but {data.task.name} has {found}. "
            "Choose another task."
        )
    minority, majority = sorted(counts, key=lambda label: counts[label])
    wanted = {minority: MINORITY, majority: MINORITY * rho}
    for label, rows in wanted.items():
        if counts[label] < rows:
            raise SclsearchError(
                f"{where}: needs {rows} training rows of class {data.task.labels[label]!r} of "
                f"{data.task.name}, got {counts[label]}. Choose a smaller imbalance."
            )
    train = draw_per_class(data, splits.train, wanted, stream(replicate.subset, "subset"))
    of_each = " and ".join(f"{rows} of {data.task.labels[n]!r}" for n, rows in wanted.items())
    drawn = replace(splits, train=train).noted(f"training: {of_each}")
    return _with_validation(data, drawn, replicate)


def _with_validation(data: TaskData, splits: Splits, replicate: Replicate) -> Splits:
    validation = draw_validation(data, splits.train, whole(data, "train"), replicate.subset)
    rows, wanted = len(validation.index), len(splits.train.index)
    fewer = f", fewer than the {wanted} for training" if rows < wanted else ""
    note = f"validation: {rows} other rows of the training split{fewer}"
    return replace(splits, validation=validation).noted(note)


LACON = Protocol(
    name="lacon",
    summary="Zhang et al.: at most 5000 rows of each of two classes, 1000 of each of more, "
    "mean of 10",
    rows=lacon_rows,
    replicates=10,
    rule=MEAN,
    evaluate="epoch",
    keep="best",
    model="bert-base",
    metrics={
        "tnews": "macro_f1",
        "fewclue-tnews": "macro_f1",
        "cola": "mcc",
        "mrpc": "accuracy",
        "qqp": "accuracy",
    },
    training={"warmup_ratio": 0.06, **TRANSFORMERS_DEFAULTS},  # of all methods (section 3.1)
    epochs=lambda _rows, _batch_size: {"epochs": 10},
    pretrained_pooler=True,
)
# The paper does not state the number of runs behind its few-shot scores, nor behind those by
# imbalance and by number of classes.
LACON_FEW_SHOT = replace(
    LACON,
    name="lacon-fewshot",
    summary="Zhang et al.: K rows of each class, as many for validation, mean of 10",
    rows=lacon_few_shot_rows,
    epochs=lambda _rows, _batch_size: {"epochs": 20},
    few_shot=True,
    sizes=("20-per-class",),
)


def lacon_imbalance(rho: int) -> Protocol:
    """Return the protocol with classes of ratio ρ."""
    return replace(
        LACON,
        name=f"lacon-imbalance:{rho}",
        summary=f"Zhang et al.: {MINORITY} rows of one class, {MINORITY * rho} of the other, "
        "mean of 10",
        rows=partial(imbalanced_rows, rho=rho),
    )


def lacon_classes(count: int) -> Protocol:
    """Return the protocol with the first `count` classes of a task."""
    return replace(
        LACON,
        name=f"lacon-classes:{count}",
        summary=f"Zhang et al.: at most 1000 rows of each of a task's first {count} classes, "
        "mean of 10",
        rows=rows_by_classes,
        classes=count,
    )


HELD_OUT = 0.2
"""Share of the training rows that `plain` holds out for validation."""


def plain_rows(data: TaskData, _size: Size | None = None, _: Replicate | None = None) -> Splits:
    """Return the task's own splits; without validation, hold out a fifth of the training rows.

    It is at most 2,000 rows. A user's own task without a test split has no test rows.
    """
    if "validation" not in data.splits and (data.task.own or "test" in data.splits):
        share = min(HELD_OUT, 2_000 / data.splits["train"].labeled)
        return hold_out(data, plain_pool(data), share=share, seed=0)
    if data.task.own and "test" not in data.splits:
        return replace(plain_pool(data), validation=whole(data, "validation"))
    return split_dev(data, cap=None)


def plain_epochs(rows: int, batch_size: int) -> Mapping[str, int]:
    """Return 10 epochs, on many rows fewer: 1,500 updates or 3 epochs, whichever is more."""
    return {"epochs": min(10, max(3, 1_500 // -(-rows // batch_size)))}


PLAIN = Protocol(
    name="plain",
    summary="your own data: its splits, 5 seeds, ranked and reported by their mean",
    rows=plain_rows,
    replicates=5,
    rule=MEAN,
    evaluate="epoch",
    keep="best",
    model="minilm",
    epochs=plain_epochs,
)
