"""Further texts are trained on where no label is read, and nowhere else."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sclsearch.protocols.base import Rows, Splits
from sclsearch.protocols.splits import plain_split
from sclsearch.tasks.base import TaskData
from sclsearch.training.engine import train
from sclsearch.training.result import TrainingResult
from sclsearch.training.spec import TrainingData

WorkFor = Callable[..., TrainingData]

LABELLED, ALL, BATCH, EPOCHS = 20, 44, 8, 2
POST: Mapping[str, int] = {"epochs": EPOCHS, "post_epochs": EPOCHS, "post_batch_size": BATCH}
METHODS: Mapping[str, Mapping[str, int]] = {
    "cmlm": POST,
    "tapt": POST,
    "cssl": POST,
    "simcse": {"epochs": EPOCHS, "probe_epochs": EPOCHS},
}


@pytest.fixture
def splits(toy: TaskData) -> Splits:
    """Returns 20 training rows, and 24 further ones of the training split."""
    train, every = (Rows("train", np.arange(rows)) for rows in (LABELLED, ALL))
    return replace(plain_split(toy), train=train, unlabeled=every)


def updates(result: TrainingResult) -> tuple[Any, Any]:
    """Returns the updates of the first stage and of the last."""
    return result.stages[-1]["update"], result.evaluations[-1]["update"]


def figures(result: TrainingResult) -> list[object]:
    return [result.stages, result.evaluations, result.test, result.predictions]


def with_further(data: TaskData, **changes: Any) -> TaskData:
    """Returns the task with other texts or labels of the further rows."""
    train = replace(data.splits["train"], **changes)
    return replace(data, splits={**data.splits, "train": train})


@pytest.mark.parametrize("name", METHODS)
def test_the_first_stage_has_all_texts_and_fine_tuning_the_labelled_ones(
    work_for: WorkFor, splits: Splits, name: str
) -> None:
    few, many = (-(-rows // BATCH) * EPOCHS for rows in (LABELLED, ALL))
    fields = {**METHODS[name], "batch_size": BATCH}
    assert updates(train(work_for(name, splits=splits, **fields))) == (many, few)
    without = replace(splits, unlabeled=None)
    assert updates(train(work_for(name, splits=without, **fields))) == (few, few)


@pytest.mark.parametrize("name", METHODS)
def test_the_labels_of_further_texts_change_nothing_and_the_texts_do(
    work_for: WorkFor, toy: TaskData, splits: Splits, name: str
) -> None:
    split, fields = toy.splits["train"], METHODS[name]
    before = train(work_for(name, splits=splits, **fields))
    y = np.concatenate([split.y[:LABELLED], 1 - split.y[LABELLED:]])
    relabelled = train(work_for(name, data=with_further(toy, y=y), splits=splits, **fields))
    assert figures(relabelled) == figures(before)
    assert all(torch.equal(before.weights[name], t) for name, t in relabelled.weights.items())
    texts = (*split.texts[:LABELLED], *[("it was a lovely film",)] * (ALL - LABELLED))
    reworded = train(work_for(name, data=with_further(toy, texts=texts), splits=splits, **fields))
    assert figures(reworded) != figures(before)


@pytest.mark.parametrize("name", ["ce", "supcl-seq"])
def test_stages_with_labels_leave_further_texts_aside(
    work_for: WorkFor, splits: Splits, name: str
) -> None:
    with_, without = (
        train(work_for(name, splits=rows, epochs=1))
        for rows in (splits, replace(splits, unlabeled=None))
    )
    assert figures(with_) == figures(without)


def test_balanced_batches_are_of_labelled_texts(work_for: WorkFor, splits: Splits) -> None:
    result = train(work_for("simcse", splits=splits, epochs=1, batch_sampling="balanced"))
    assert updates(result)[0] == -(-LABELLED // BATCH)
