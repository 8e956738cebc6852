"""The same seed run gives the same figures to the bit, and a toy task is learnt."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from sclsearch.tasks.metrics import value
from sclsearch.training.engine import train
from sclsearch.training.result import TrainingResult
from sclsearch.training.spec import TrainingData

MAJORITY = 0.6

WorkFor = Callable[..., TrainingData]
Trained = Callable[..., TrainingResult]


def same_weights(one: TrainingResult, other: TrainingResult) -> bool:
    assert one.weights.keys() == other.weights.keys()
    return all(torch.equal(tensor, other.weights[name]) for name, tensor in one.weights.items())


def test_the_same_job_gives_the_same_figures_and_weights(
    work_for: WorkFor, trained: Trained, method: str
) -> None:
    torch.manual_seed(4711)
    again, first = train(work_for(method)), trained(method)
    assert again.evaluations == first.evaluations
    assert again.predictions == first.predictions
    assert (again.kept, again.test) == (first.kept, first.test)
    assert same_weights(again, first)


def test_another_replicate_gives_other_weights(trained: Trained, method: str) -> None:
    assert not same_weights(trained(method, 1), trained(method))


@pytest.mark.parametrize("purpose", ["initialization", "order", "noise"])
def test_each_seed_matters(work_for: WorkFor, purpose: str) -> None:
    work = work_for("ce", epochs=1)
    changed: dict[str, Any] = {purpose: 7}
    replicate = replace(work.spec.replicate, **changed)
    other = replace(work, spec=replace(work.spec, replicate=replicate))
    assert not same_weights(train(other), train(work))


def test_number_and_subset_of_a_replicate_matter_through_its_rows_alone(work_for: WorkFor) -> None:
    work = work_for("ce", epochs=1)
    replicate = replace(work.spec.replicate, number=7, subset=7)
    other = replace(work, spec=replace(work.spec, replicate=replicate))
    assert same_weights(train(other), train(work))


def test_without_dropout_the_noise_seed_does_not_matter(work_for: WorkFor) -> None:
    work = work_for("ce", epochs=1, dropout=0.0)
    other = replace(work, spec=replace(work.spec, replicate=replace(work.spec.replicate, noise=7)))
    assert same_weights(train(other), train(work))


def test_training_lowers_the_loss_and_beats_the_majority(trained: Trained, method: str) -> None:
    evaluations: list[Any] = trained(method).evaluations
    losses = [sum(one["loss"].values()) for one in evaluations]
    accuracies = [value("accuracy", one["validation"]) for one in evaluations]
    assert losses[-1] < 0.8 * losses[0]
    assert max(accuracies) > MAJORITY + 0.2


def test_an_evaluation_says_when_it_was(trained: Trained, method: str) -> None:
    evaluations: list[Any] = trained(method).evaluations
    assert [one["epoch"] for one in evaluations] == [n + 1.0 for n in range(len(evaluations))]
    assert [one["update"] for one in evaluations] == [6 * (n + 1) for n in range(len(evaluations))]
    assert all(set(one) == {"epoch", "update", "loss", "validation"} for one in evaluations)


def test_a_seed_run_takes_time(trained: Trained, method: str) -> None:
    assert trained(method).seconds > 0


def test_when_validation_is_computed_does_not_change_the_training(
    work_for: WorkFor, method: str
) -> None:
    schedules: list[Any] = ["end", "epoch", 4]
    results = [
        train(work_for(method, evaluate=evaluate, keep="last", epochs=2)) for evaluate in schedules
    ]
    assert len(results[0].evaluations) == 1
    assert len({len(result.evaluations) for result in results}) == 3
    for result in results[1:]:
        assert same_weights(result, results[0])
        assert result.predictions == results[0].predictions
        assert result.test == results[0].test


def test_batches_with_balanced_classes_train_too(work_for: WorkFor, method: str) -> None:
    balanced = train(work_for(method, batch_sampling="balanced", epochs=1))
    assert not same_weights(balanced, train(work_for(method, epochs=1)))


def test_clipping_changes_the_training(work_for: WorkFor) -> None:
    clipped = train(work_for("ce", max_grad_norm=1e-3, epochs=1))
    assert not same_weights(clipped, train(work_for("ce", epochs=1)))
