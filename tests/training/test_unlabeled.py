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
    assert [before.stages[-1]["update"], before.evaluations[-1]["update"]] == [many, few]
    assert trained(replace(splits, unlabeled=None)).stages[-1]["update"] == few
    y = np.concatenate([split.y[:LABELED], 1 - split.y[LABELED:]])
    assert identical(trained(y=y), before)
    texts = (*split.texts[:LABELED], *[("it was a lovely film",)] * (ALL - LABELED))
    assert not identical(trained(texts=texts), before)
