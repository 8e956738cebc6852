"""Tests of batches, models and stages, and of the defaults of Method."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Method, Model, Stage, Training
from sclsearch.methods.scl import CE


def stage_with(**options: Any) -> Stage:
    return Stage("joint", Training(), lambda _model, _batch: {}, **options)


def test_rows_of_views_have_the_order_of_their_labels(bert: Encoder, batch: Batch) -> None:
    model = Model(bert, nn.ModuleDict()).eval()
    views = replace(batch, dropout_rates=(0.0, 0.0))
    rows = model.embed(views, "cls_raw")
    for label in (0, 1):
        expected = model.embed(batch, "cls_raw")[batch.y == label].repeat(2, 1)
        torch.testing.assert_close(rows[views.view_y == label], expected)


def test_cached_features_replace_the_encoder_but_not_for_paraphrases(
    bert: Encoder, batch: Batch
) -> None:
    model, features = Model(bert, nn.ModuleDict()), torch.rand(8, 16)
    assert model.embed(replace(batch, features=features), "mean") is features
    with pytest.raises(ValueError, match=r"^joint: .*paraphrases"):
        stage_with(reads="paraphrases", frozen_pooling="mean")


def test_a_loss_is_the_sum_of_the_scalar_terms_that_are_not_monitored() -> None:
    stage = stage_with(monitored=("spread",))
    terms = {"ce": torch.tensor(2.0), "spread": torch.tensor(40.0), "scl": torch.tensor(-0.5)}
    assert stage.loss(terms).item() == 1.5
    with pytest.raises(SclsearchError, match=r"^joint: loss term 'ce': must be a scalar.* \[3\]"):
        stage.loss({"ce": torch.ones(3)})


@dataclass(frozen=True)
class Unchanged(Method):
    """Method that overrides nothing."""


def test_a_method_that_overrides_nothing_is_cross_entropy_fine_tuning(
    bert: Encoder, batch: Batch
) -> None:
    method, training = Unchanged(), Training()
    (stage,) = method.stages(training)
    assert stage.training == training
    assert method.check(bert) == ()
    model = Model(bert, stage.new_modules(bert, 2)).eval()
    plain = CE(pooling="mean")
    assert stage.terms(model, batch) == plain.terms(model, batch)
    assert torch.equal(method.scores(model, batch), plain.scores(model, batch))
