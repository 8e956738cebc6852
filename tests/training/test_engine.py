"""Tests of the training of one seed run: reproducibility, learning, unusual batches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.protocols.base import Rows
from sclsearch.protocols.papers import plain_rows
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.base import TaskData
from sclsearch.tasks.metrics import value
from sclsearch.training.engine import train
from sclsearch.training.evaluation import TrainingResult
from tests.training.conftest import Trained, Work, WorkFor

MAJORITY = 0.6


def same_weights(one: TrainingResult, other: TrainingResult) -> bool:
    assert one.weights.keys() == other.weights.keys()
    return all(torch.equal(tensor, other.weights[name]) for name, tensor in one.weights.items())


def with_seeds(work: Work, **seeds: Any) -> Work:
    replicate = replace(work.spec.replicate, **seeds)
    return work._replace(spec=replace(work.spec, replicate=replicate))


def on_rows(work: Work, rows: list[int]) -> Work:
    splits = replace(work.spec.splits, train=Rows("train", np.array(rows, np.int64)))
    return work._replace(spec=replace(work.spec, splits=splits))


def losses(result: TrainingResult) -> list[dict[str, float]]:
    evaluations: list[Any] = result.evaluations
    return [one["loss"] for one in evaluations]


def finite(result: TrainingResult) -> bool:
    terms = [term for loss in losses(result) for term in loss.values()]
    return bool(np.isfinite(terms).all()) and all(
        bool(tensor.isfinite().all()) for tensor in result.weights.values()
    )


def test_a_seed_run_is_reproducible_to_the_bit(
    work_for: WorkFor, trained: Trained, method: str
) -> None:
    torch.manual_seed(4711)
    again, first = train(*work_for(method)), trained(method)
    assert again.evaluations == first.evaluations
    assert again.predictions == first.predictions
    assert (again.kept, again.test) == (first.kept, first.test)
    assert same_weights(again, first)
    assert not same_weights(trained(method, 1), first)


@pytest.mark.parametrize(
    ("seeds", "same"),
    [
        ({"initialization": 7}, False),
        ({"order": 7}, False),
        ({"noise": 7}, False),
        ({"number": 7, "subset": 7}, True),  # they affect only which rows are drawn
    ],
    ids=str,
)
def test_each_seed_of_a_replicate_affects_the_training(
    work_for: WorkFor, seeds: dict[str, int], same: bool
) -> None:
    work = work_for("ce", epochs=1)
    assert same_weights(train(*with_seeds(work, **seeds)), train(*work)) == same


def test_training_lowers_the_loss_and_beats_the_majority_class(
    trained: Trained, method: str
) -> None:
    result = trained(method)
    evaluations: list[Any] = result.evaluations
    sums = [sum(loss.values()) for loss in losses(result)]
    assert sums[-1] < 0.8 * sums[0]
    assert max(value("accuracy", one["validation"]) for one in evaluations) > MAJORITY + 0.2
    assert [one["epoch"] for one in evaluations] == [n + 1.0 for n in range(len(evaluations))]
    assert [one["update"] for one in evaluations] == [6 * (n + 1) for n in range(len(evaluations))]
    assert all(set(one) == {"epoch", "update", "loss", "validation"} for one in evaluations)
    assert result.seconds > 0


def test_the_evaluation_schedule_does_not_change_the_training(
    work_for: WorkFor, method: str
) -> None:
    schedules: list[Any] = ["end", "epoch", 4]
    results = [
        train(*work_for(method, evaluate=evaluate, keep="last", epochs=2)) for evaluate in schedules
    ]
    assert len(results[0].evaluations) == 1
    assert len({len(result.evaluations) for result in results}) == 3
    for result in results[1:]:
        assert same_weights(result, results[0])
        assert result.predictions == results[0].predictions
        assert result.test == results[0].test


@pytest.mark.parametrize(
    "setting",
    [
        {"max_grad_norm": 1e-3},
        {"class_weights": "balanced"},
        {"head_lr_mult": 10.0},
    ],
    ids=str,
)
def test_training_settings_change_the_training(
    work_for: WorkFor, setting: dict[str, object]
) -> None:
    changed, plain = (train(*work_for("ce", epochs=1, **given)) for given in (setting, {}))
    assert not same_weights(changed, plain)


def test_methods_without_a_cross_entropy_reject_class_weights() -> None:
    settings = {"class_weights": "balanced"}
    spec = StudySpec(method="lacon", task="demo", model="minilm", settings=settings)
    with pytest.raises(SclsearchError, match=r"^class_weights: .* but lacon has none"):
        resolve(spec, RunOptions(gpus_per_trial=0))


@pytest.mark.parametrize("method", ["lacon", "supcl-seq"])
def test_methods_without_a_head_beside_the_encoder_reject_its_multiplier(method: str) -> None:
    spec = StudySpec(method=method, task="demo", model="minilm", settings={"head_lr_mult": 10.0})
    study = resolve(spec, RunOptions(gpus_per_trial=0))
    with pytest.raises(SclsearchError, match=rf"^head_lr_mult: {method} trains no module named"):
        study.check(load_encoder(study.model, study.model_name))


@pytest.mark.parametrize("name", [name for name in METHODS if method_class(name).regression])
def test_regression_methods_learn_scores(
    work_for: WorkFor, toy_scores: TaskData, name: str
) -> None:
    result = train(*work_for(name, data=toy_scores, epochs=12))
    evaluations: list[Any] = result.evaluations
    assert set(evaluations[0]["validation"]) == {"pearson", "spearman", "mse"}
    assert evaluations[result.kept]["validation"]["pearson"] > 0.6
    assert value("pearson", result.test) > 0.6
    assert len(set(result.predictions["test"])) > 2


@pytest.mark.parametrize("rows", [1, 9], ids=str)
def test_a_last_batch_of_one_row_trains(work_for: WorkFor, method: str, rows: int) -> None:
    result = train(*on_rows(work_for(method, epochs=2), list(range(rows))))
    assert finite(result)
    evaluations: list[Any] = result.evaluations
    assert evaluations[-1]["update"] % -(-rows // 8) == 0


def test_contrastive_batches_of_one_class_or_without_positives_train(
    work_for: WorkFor, toy: TaskData
) -> None:
    y = toy.splits["train"].y[plain_rows(toy).train.index]
    work = work_for("scl", epochs=3)
    one_class = train(*on_rows(work, np.flatnonzero(y == 1).tolist()))
    assert finite(one_class)
    assert set(one_class.predictions["test"]) == {1}
    one_of_each = train(*on_rows(work, [int(np.argmax(y == 0)), int(np.argmax(y == 1))]))
    assert finite(one_of_each)
    assert all(loss["scl"] == 0 for loss in losses(one_of_each))


def test_without_validation_rows_the_last_weights_are_kept_after_the_given_updates(
    work_for: WorkFor,
) -> None:
    work = work_for("ce")
    none = Rows("train", np.empty(0, np.int64))
    splits = replace(work.spec.splits, validation=none, test=none)
    spec = replace(work.spec, splits=splits)
    limited = train(*work._replace(spec=replace(spec, max_updates=5)), test=False)
    given = train(*work._replace(spec=replace(spec, last_updates=5)), test=False)
    whole = train(*work._replace(spec=spec), test=False)
    assert given.stages[-1]["update"] == 5
    assert (given.evaluations, given.test) == ([], {})
    assert same_weights(given, limited)
    assert not torch.equal(
        given.weights["new_modules.head.out.weight"], whole.weights["new_modules.head.out.weight"]
    )
