"""Tests of unlabeled texts, which only stages without labels read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sclsearch.protocols.base import Rows, Splits
from sclsearch.protocols.papers import plain_rows
from sclsearch.tasks.base import TaskData
from sclsearch.training.engine import train
from sclsearch.training.evaluation import TrainingResult
from tests.training.conftest import WorkFor, identical

LABELED, ALL, EPOCHS = 20, 44, 2
POST = {"post_epochs": EPOCHS, "post_batch_size": 8}
METHODS: Mapping[str, Mapping[str, int]] = {
    "cmlm": POST,
    "tapt": POST,
    "cssl": POST,
    "simcse": {"probe_epochs": EPOCHS},
}


@pytest.fixture
def splits(toy: TaskData) -> Splits:
    """Return 20 labeled training rows, and 24 unlabeled ones."""
    train, every = (Rows("train", np.arange(rows)) for rows in (LABELED, ALL))
    return replace(plain_rows(toy), train=train, unlabeled=every)


def updates(result: TrainingResult) -> tuple[Any, Any]:
    """Return the number of updates of the first and of the last stage."""
    return result.stages[-1]["update"], result.evaluations[-1]["update"]


@pytest.mark.parametrize("name", METHODS)
def test_stages_without_labels_read_all_texts_but_no_labels_of_them(
    work_for: WorkFor, toy: TaskData, splits: Splits, name: str
) -> None:
    def trained(splits: Splits = splits, **changes: Any) -> TrainingResult:
        rows = replace(toy.splits["train"], **changes)
        data = replace(toy, splits={**toy.splits, "train": rows})
        return train(*work_for(name, data=data, splits=splits, epochs=EPOCHS, **METHODS[name]))

    split, before = toy.splits["train"], trained()
    few, many = (-(-rows // 8) * EPOCHS for rows in (LABELED, ALL))
    assert updates(before) == (many, few)
    assert updates(trained(replace(splits, unlabeled=None))) == (few, few)
    y = np.concatenate([split.y[:LABELED], 1 - split.y[LABELED:]])
    assert identical(trained(y=y), before)
    texts = (*split.texts[:LABELED], *[("it was a lovely film",)] * (ALL - LABELED))
    assert not identical(trained(texts=texts), before)


@pytest.mark.parametrize("name", ["ce", "supcl-seq"])
def test_stages_with_labels_ignore_unlabeled_texts(
    work_for: WorkFor, splits: Splits, name: str
) -> None:
    given = train(*work_for(name, splits=splits, epochs=1))
    without = train(*work_for(name, splits=replace(splits, unlabeled=None), epochs=1))
    assert (given.stages, given.evaluations) == (without.stages, without.evaluations)
    assert given.predictions == without.predictions
