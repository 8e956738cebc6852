"""Balanced class weights enter the loss, and identities only where they are set."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, find_method
from sclsearch.methods.base import Training
from sclsearch.methods.fields import resolved
from sclsearch.objectives import prediction_loss
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.engine import train
from sclsearch.training.spec import TrainingData


def test_the_mean_is_weighted_by_class() -> None:
    torch.manual_seed(0)
    scores, y = torch.randn(6, 3), torch.tensor([0, 0, 0, 0, 1, 2])
    weights = 6 / (3 * torch.tensor([4.0, 1.0, 1.0]))
    each = F.cross_entropy(scores, y, reduction="none")
    expected = (each * weights[y]).sum() / weights[y].sum()
    assert torch.allclose(prediction_loss(scores, y, weights), expected)
    assert torch.equal(prediction_loss(scores, y), F.cross_entropy(scores, y))


@pytest.mark.parametrize("name", METHODS)
def test_the_field_is_no_part_of_identities_at_its_default(name: str) -> None:
    method = find_method(name).kind()
    assert "class_weights" not in resolved(method, Training())
    assert resolved(method, Training(class_weights="balanced"))["class_weights"] == "balanced"


def test_training_with_balanced_weights_ends_otherwise_where_classes_differ_in_size(
    work_for: Callable[..., TrainingData],
) -> None:
    plain, weighted = (
        train(work_for("ce", epochs=1, class_weights=weights)) for weights in ("none", "balanced")
    )
    assert plain.evaluations[0]["loss"] != weighted.evaluations[0]["loss"]


@pytest.mark.parametrize(("method", "told"), [("lacon", "lacon has no cross-entropy")])
def test_methods_without_a_cross_entropy_refuse_them(method: str, told: str) -> None:
    spec = StudySpec(
        method=method, task="demo", model="minilm", settings={"class_weights": "balanced"}
    )
    with pytest.raises(
        SclsearchError, match=f"class_weights: 'balanced' needs classes, but {told}"
    ):
        resolve(spec, RunOptions(gpus_per_trial=0))
