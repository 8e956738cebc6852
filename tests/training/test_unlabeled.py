"""Tests of unlabeled texts, which only stages without labels read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sclsearch.protocols.base import Rows, Splits
from sclsearch.protocols.papers import plain_rows
from sclsearch.tasks.base import TaskData
from sclsearch.training.engine import train
from sclsearch.training.evaluation import TrainingResult
from tests.training.conftest import WorkFor

LABELED, ALL, BATCH, EPOCHS = 20, 44, 8, 2
POST: Mapping[str, int] = {"epochs": EPOCHS, "post_epochs": EPOCHS, "post_batch_size": BATCH}
METHODS: Mapping[str, Mapping[str, int]] = {
    "cmlm": POST,
    "tapt": POST,
    "cssl": POST,
    "simcse": {"epochs": EPOCHS, "probe_epochs": EPOCHS},
}


@pytest.fixture
def splits(toy: TaskData) -> Splits:
    """Return 20 labeled training rows, and 24 unlabeled ones."""
    train, every = (Rows("train", np.arange(rows)) for rows in (LABELED, ALL))
    return replace(plain_rows(toy), train=train, unlabeled=every)


def updates(result: TrainingResult) -> tuple[Any, Any]:
    """Return the number of updates of the first and of the last stage."""
    return result.stages[-1]["update"], result.evaluations[-1]["update"]


def records(result: TrainingResult) -> list[object]:
    return [result.stages, result.evaluations, result.test, result.predictions]


def with_unlabeled(data: TaskData, **changes: Any) -> TaskData:
    """Return the task with other texts or labels of its training rows."""
    train = replace(data.splits["train"], **changes)
    return replace(data, splits={**data.splits, "train": train})


@pytest.mark.parametrize("name", METHODS)
def test_the_first_stage_reads_all_texts_and_fine_tuning_the_labeled_ones(
    work_for: WorkFor, splits: Splits, name: str
) -> None:
    few, many = (-(-rows // BATCH) * EPOCHS for rows in (LABELED, ALL))
    fields = {**METHODS[name], "batch_size": BATCH}
    assert updates(train(*work_for(name, splits=splits, **fields))) == (many, few)
    without = replace(splits, unlabeled=None)
    assert updates(train(*work_for(name, splits=without, **fields))) == (few, few)


@pytest.mark.parametrize("name", METHODS)
def test_unlabeled_texts_affect_the_training_and_their_labels_do_not(
    work_for: WorkFor, toy: TaskData, splits: Splits, name: str
) -> None:
    split, fields = toy.splits["train"], METHODS[name]
    before = train(*work_for(name, splits=splits, **fields))
    y = np.concatenate([split.y[:LABELED], 1 - split.y[LABELED:]])
    relabeled = train(*work_for(name, data=with_unlabeled(toy, y=y), splits=splits, **fields))
    assert records(relabeled) == records(before)
    assert all(torch.equal(before.weights[name], t) for name, t in relabeled.weights.items())
    texts = (*split.texts[:LABELED], *[("it was a lovely film",)] * (ALL - LABELED))
    reworded = train(
        *work_for(name, data=with_unlabeled(toy, texts=texts), splits=splits, **fields)
    )
    assert records(reworded) != records(before)


@pytest.mark.parametrize("name", ["ce", "supcl-seq"])
def test_stages_with_labels_ignore_unlabeled_texts(
    work_for: WorkFor, splits: Splits, name: str
) -> None:
    with_, without = (
        train(*work_for(name, splits=rows, epochs=1))
        for rows in (splits, replace(splits, unlabeled=None))
    )
    assert records(with_) == records(without)
