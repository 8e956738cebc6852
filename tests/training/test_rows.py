"""Scores, batches of one row and batches of one class train like any other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sclsearch.methods import METHODS, method_class
from sclsearch.protocols.base import Rows, Splits
from sclsearch.protocols.splits import plain_split
from sclsearch.tasks.base import TaskData
from sclsearch.training.engine import train
from sclsearch.training.result import TrainingResult
from sclsearch.training.spec import TrainingData

WorkFor = Callable[..., TrainingData]

REGRESSION = [name for name in METHODS if method_class(name).regression]


def parts_of(data: TaskData, train: list[int]) -> Splits:
    return replace(plain_split(data), train=Rows("train", np.array(train, np.int64)))


def finite(result: TrainingResult) -> bool:
    evaluations: list[Any] = result.evaluations
    losses = [term for one in evaluations for term in one["loss"].values()]
    weights = result.weights.values()
    return bool(np.isfinite(losses).all()) and all(bool(t.isfinite().all()) for t in weights)


@pytest.mark.parametrize("name", REGRESSION)
def test_scores_are_learnt(work_for: WorkFor, toy_scores: TaskData, name: str) -> None:
    result = train(work_for(name, data=toy_scores, epochs=12))
    evaluations: list[Any] = result.evaluations
    assert set(evaluations[0]["validation"]) == {"pearson", "spearman", "mse"}
    assert evaluations[result.kept]["validation"]["pearson"] > 0.6
    assert result.test["pearson"] > 0.6  # type: ignore[operator]
    assert len(result.predictions["test"]) == 30
    assert len(set(result.predictions["test"])) > 2


@pytest.mark.parametrize("rows", [1, 2, 9, 17], ids=str)
def test_a_last_batch_of_one_row_trains(
    work_for: WorkFor, toy: TaskData, method: str, rows: int
) -> None:
    splits = parts_of(toy, list(range(rows)))
    result = train(work_for(method, splits=splits, epochs=2))
    assert finite(result)
    evaluations: list[Any] = result.evaluations
    assert evaluations[-1]["update"] % -(-rows // 8) == 0


@pytest.mark.parametrize("reduction", ["mean_valid", "mean_all", "sum"])
def test_batches_of_one_class_train(work_for: WorkFor, toy: TaskData, reduction: str) -> None:
    good = np.flatnonzero(toy.splits["train"].y == 1).tolist()
    work = work_for("scl", splits=parts_of(toy, good), scl_reduction=reduction, epochs=3)
    result = train(work)
    assert finite(result)
    assert set(result.predictions["test"]) == {1}


@pytest.mark.parametrize("reduction", ["mean_valid", "mean_all", "sum"])
def test_batches_without_two_of_a_class_train(
    work_for: WorkFor, toy: TaskData, reduction: str
) -> None:
    y = toy.splits["train"].y
    splits = parts_of(toy, [int(np.argmax(y == 0)), int(np.argmax(y == 1))])
    work = work_for("scl", splits=splits, scl_reduction=reduction, epochs=3)
    result = train(work)
    assert finite(result)
    evaluations: list[Any] = result.evaluations
    assert all(one["loss"]["scl"] == 0 for one in evaluations)
