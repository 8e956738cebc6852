"""A loss below zero, as LaCon's is once its classes are apart, is trained and noted as it is."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from sclsearch.canonical import canonical
from sclsearch.tasks.metrics import value
from sclsearch.training.engine import train
from sclsearch.training.spec import TrainingData


@pytest.mark.parametrize("method", ["lacon", "lacon-fusion"])
def test_a_small_temperature_takes_the_loss_far_below_zero(
    work_for: Callable[..., TrainingData], method: str
) -> None:
    work = work_for(method, tau=0.1, heads=1, batch_size=16, epochs=12, label_init_std=0.2)
    result = train(work)
    evaluations: list[Any] = result.evaluations
    losses = [sum(one["loss"].values()) for one in evaluations]
    assert losses[0] > 0 > -10 > losses[-1]
    assert all(math.isfinite(loss) for one in evaluations for loss in one["loss"].values())
    assert evaluations[-1]["loss"]["lcl"] < 0 <= evaluations[-1]["loss"]["ler"]
    accuracies = [value("accuracy", one["validation"]) for one in evaluations]
    assert accuracies[result.kept] == max(accuracies) > 0.8
    assert canonical(evaluations)
