"""Tests of the error of a loss term that is NaN or infinite."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
import torch

from sclsearch.methods.base import Batch, Method, Model, Stage, Terms, Training
from sclsearch.training.engine import train
from sclsearch.training.evaluation import NonFiniteLossError
from tests.training.conftest import WorkFor


@dataclass(frozen=True)
class NonFinite(Method):
    """Two stages of cross-entropy, with a term that becomes infinite or NaN at an update."""

    value: float
    update: int
    stage: str = "second"

    def stages(self, training: Training) -> tuple[Stage, ...]:
        return tuple(
            Stage(name, training, self.terms_of(name), self.new_modules)
            for name in ("first", "second")
        )

    def terms_of(self, stage: str) -> Callable[[Model, Batch], Terms]:
        updates = count(1)

        def terms(model: Model, batch: Batch) -> Terms:
            reached = next(updates) >= self.update and stage == self.stage
            factor = torch.tensor(self.value if reached else 0.0)
            scores = self.scores(model, batch)
            return {**self.terms(model, batch), "extra": factor * scores.float().square().mean()}

        return terms


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("evaluate", ["epoch", "end", 1])
@pytest.mark.parametrize("stage", ["first", "second"])
def test_the_error_names_stage_term_epoch_and_update(
    work_for: WorkFor, value: float, evaluate: Any, stage: str
) -> None:
    work = work_for("ce", evaluate=evaluate, epochs=2)
    method = NonFinite(value, 9, stage)
    with pytest.raises(
        NonFiniteLossError,
        match=f"^{stage}: loss term extra is (inf|nan) at epoch 2, update 3 of 6\\.",
    ):
        train(*work._replace(spec=replace(work.spec, method=method)))
