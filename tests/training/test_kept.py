"""Tests of which evaluation is kept, and of its weights and predictions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from torch import nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.methods.base import Batch, Model, Stage, Terms, Training
from sclsearch.methods.scl import CE
from sclsearch.tasks.metrics import value
from sclsearch.training.device import Backend
from sclsearch.training.engine import train
from sclsearch.training.evaluation import evaluate_rows
from sclsearch.training.optimizer import evaluation_points
from tests.training.conftest import Rebuilt, Trained, WorkFor

CPU = Backend(torch.device("cpu"))


@pytest.mark.parametrize(
    ("schedule", "per_epoch", "total", "points"),
    [
        ("epoch", 4, 12, {4, 8, 12}),
        ("end", 4, 12, {12}),
        (5, 4, 12, {5, 10, 12}),
        (6, 4, 12, {6, 12}),
        ("tenth", 4, 20, {2, 4, 6, 8, 10, 12, 14, 16, 18, 20}),
        ("tenth", 4, 25, {3, 5, 8, 10, 13, 15, 18, 20, 23, 25}),
    ],
    ids=str,
)
def test_the_last_update_is_always_evaluated(
    schedule: Any, per_epoch: int, total: int, points: set[int]
) -> None:
    assert evaluation_points(schedule, per_epoch, total) == points


def test_the_evaluation_with_the_best_score_and_then_the_lowest_loss_is_kept(
    trained: Trained, method: str
) -> None:
    result = trained(method)
    evaluations: list[Any] = [one["validation"] for one in result.evaluations]
    ranks = [(value("accuracy", one), -one["log_loss"]) for one in evaluations]
    assert result.kept == max(n for n, rank in enumerate(ranks) if rank == max(ranks))


@pytest.mark.parametrize("keep", ["best", "last"])
def test_of_equal_evaluations_the_latest_is_kept(work_for: WorkFor, method: str, keep: str) -> None:
    still = {"learning_rate": 1e-12, "epochs": 3}
    if method in {"supcl-seq", "simcse"}:
        still |= {"probe_learning_rate": 1e-12, "probe_epochs": 3}
    result = train(*work_for(method, keep=keep, **still))
    evaluations: list[Any] = result.evaluations
    assert len(evaluations) == 3
    confusions = [one["validation"]["confusion"] for one in evaluations]
    assert confusions == [confusions[0]] * 3
    losses = [-one["validation"]["log_loss"] for one in evaluations]
    best = max(n for n, loss in enumerate(losses) if loss == max(losses))
    assert result.kept == (2 if keep == "last" else best)


def test_the_log_loss_is_that_of_scikit_learn(work_for: WorkFor) -> None:
    work = work_for("ce")
    result = train(*work)
    y = work.tokens["test"].y[work.spec.splits.test.index]
    probabilities = result.probabilities["test"].astype(np.float64)
    expected = log_loss(y, probabilities / probabilities.sum(1, keepdims=True), labels=[0, 1])
    assert result.test["log_loss"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_weights_are_those_of_the_kept_evaluation(
    work_for: WorkFor, weights_seen: Callable[[type], list[dict[str, torch.Tensor]]], keep: str
) -> None:
    seen = weights_seen(CE)
    result = train(*work_for("ce", keep=keep, evaluate=1, epochs=8, learning_rate=0.1))
    kept: Any = result.evaluations[result.kept]
    before_the_end = kept["update"] < len(seen)
    assert before_the_end == (keep == "best")
    after = [*seen[1:], result.weights]  # after each update
    for number, weights in enumerate(after, start=1):
        same = all(torch.equal(weights[name], result.weights[name]) for name in weights)
        assert same == (number == kept["update"] or weights is result.weights)


class Normed(CE):
    """Cross-entropy after a batch norm, whose running means have no gradient."""

    def new_modules(self, encoder: Encoder, classes: int) -> nn.ModuleDict:
        norm = nn.BatchNorm1d(encoder.width)
        return nn.ModuleDict({"norm": norm, "head": Head(encoder.width, classes, hidden=False)})

    def stages(self, training: Training) -> tuple[Stage, ...]:
        return (Stage("normed", training, self.terms, self.new_modules),)

    def terms(self, model: Model, batch: Batch) -> Terms:
        return {"ce": nn.functional.cross_entropy(self.scores(model, batch), batch.y)}

    def scores(self, model: Model, batch: Batch) -> torch.Tensor:
        z = model.new_modules["norm"](model.embed(batch, "mean"))
        found: torch.Tensor = model.new_modules["head"](z, batch.dropout_rates[0])
        return found


def test_buffers_are_those_of_the_kept_evaluation_too(work_for: WorkFor, rebuilt: Rebuilt) -> None:
    work = work_for("ce", evaluate=1, epochs=8, learning_rate=0.1)
    work = work._replace(spec=replace(work.spec, method=Normed()))
    result = train(*work)
    kept: Any = result.evaluations[result.kept]
    assert kept["update"] < len(result.evaluations)
    assert result.weights["new_modules.norm.num_batches_tracked"] == kept["update"]
    model, rows = rebuilt(work, result), work.spec.splits.validation
    _, predictions, _ = evaluate_rows(*work, rows, model, None, CPU)
    assert predictions == result.predictions["validation"]


def test_the_weights_reproduce_the_stored_predictions(
    work_for: WorkFor, trained: Trained, rebuilt: Rebuilt, method: str
) -> None:
    work, result = work_for(method), trained(method)
    model, splits = rebuilt(work, result), work.spec.splits
    evaluations = []
    for name, rows in (("validation", splits.validation), ("test", splits.test)):
        evaluation, predictions, _ = evaluate_rows(*work, rows, model, None, CPU)
        assert predictions == result.predictions[name]
        evaluations.append(evaluation)
    assert evaluations == [result.evaluations[result.kept]["validation"], result.test]
