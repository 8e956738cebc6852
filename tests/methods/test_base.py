"""Tests of batches, models and stages, and of the defaults of Method."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods import method_class
from sclsearch.methods.base import (
    Batch,
    Method,
    Model,
    Stage,
    Training,
    reads_unlabeled,
)
from sclsearch.methods.scl import CE


def test_rows_of_views_have_the_order_of_their_labels(bert: Encoder, batch: Batch) -> None:
    model = Model(bert, nn.ModuleDict()).eval()
    views = replace(batch, dropout_rates=(0.0, 0.0))
    rows = model.embed(views, "cls_raw")
    for label in (0, 1):
        expected = model.embed(batch, "cls_raw")[batch.y == label].repeat(2, 1)
        torch.testing.assert_close(rows[views.view_y == label], expected)


def test_cached_features_replace_the_encoder(bert: Encoder, batch: Batch) -> None:
    model, features = Model(bert, nn.ModuleDict()), torch.rand(8, 16)
    assert model.embed(replace(batch, features=features), "mean") is features


def test_cached_features_of_paraphrases_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"^probe: .*paraphrases"):
        Stage(
            "probe",
            Training(),
            lambda _model, _batch: {},
            reads="paraphrases",
            frozen_pooling="mean",
        )


def test_monitored_terms_are_not_in_the_loss() -> None:
    stage = Stage("joint", Training(), lambda _model, _batch: {}, monitored=("spread",))
    terms = {"ce": torch.tensor(2.0), "spread": torch.tensor(40.0), "scl": torch.tensor(-0.5)}
    assert stage.loss(terms).item() == 1.5


def test_only_methods_with_a_stage_without_labels_read_unlabeled_texts() -> None:
    assert reads_unlabeled(method_class("simcse")(), Training())
    assert not reads_unlabeled(method_class("ce")(), Training())


@dataclass(frozen=True)
class Unchanged(Method):
    """Method that overrides nothing."""


def test_a_method_that_overrides_nothing_is_cross_entropy_fine_tuning(
    bert: Encoder, batch: Batch
) -> None:
    method, training = Unchanged(), Training()
    (stage,) = method.stages(training)
    assert (stage.name, stage.training) == ("fine-tuning", training)
    assert method.check(bert) == ()
    model = Model(bert, stage.new_modules(bert, 2)).eval()
    plain = CE(pooling="mean")
    assert stage.terms(model, batch) == plain.terms(model, batch)
    assert torch.equal(method.scores(model, batch), plain.scores(model, batch))
