"""Batches and models as methods see them."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import (
    Batch,
    Method,
    Model,
    Stage,
    Training,
    no_new_modules,
    reads_unlabeled,
)


def test_labels_are_repeated_view_by_view(batch: Batch) -> None:
    views = replace(batch, y=torch.tensor([4, 7]), rates=(0.0, 0.1, 0.2)).view_y
    assert views.tolist() == [4, 7, 4, 7, 4, 7]


def test_rows_of_views_and_their_labels_are_in_one_order(bert: Encoder, batch: Batch) -> None:
    model = Model(bert, nn.ModuleDict()).eval()
    views = replace(batch, rates=(0.0, 0.0))
    rows = model.embed(views, "cls_raw")
    for label in (0, 1):
        expected = model.embed(batch, "cls_raw")[batch.y == label].repeat(2, 1)
        torch.testing.assert_close(rows[views.view_y == label], expected)


def test_cached_features_are_taken_for_the_encoders(bert: Encoder, batch: Batch) -> None:
    model, features = Model(bert, nn.ModuleDict()), torch.rand(8, 16)
    assert model.embed(replace(batch, features=features), "mean") is features


@pytest.mark.parametrize(
    ("pooling", "train_mode", "cached"),
    [(None, False, False), ("mean", False, True), ("mean", True, False)],
)
def test_features_are_cached_only_for_a_frozen_encoder_without_dropout(
    pooling: str | None, train_mode: bool, cached: bool
) -> None:
    stage = Stage(
        "probe",
        Training(),
        lambda _model, _batch: {},
        no_new_modules,
        frozen_pooling=pooling,
        encoder_train_mode=train_mode,
    )
    assert stage.cached == cached


def test_features_of_paraphrases_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^probe: features are cached of texts, not of para"):
        Stage(
            "probe",
            Training(),
            lambda _model, _batch: {},
            no_new_modules,
            reads="paraphrases",
            frozen_pooling="mean",
        )


def test_a_stage_without_rates_has_one_view_at_the_ordinary_dropout() -> None:
    stage = Stage("joint", Training(dropout=0.3), lambda _model, _batch: {}, no_new_modules)
    assert [stage.rates_at(update) for update in (0, 1, 99)] == [(0.3,)] * 3


def test_gauges_are_no_part_of_the_loss() -> None:
    stage = Stage(
        "joint", Training(), lambda _model, _batch: {}, no_new_modules, monitored=("spread",)
    )
    terms = {"ce": torch.tensor(2.0), "spread": torch.tensor(40.0), "scl": torch.tensor(-0.5)}
    assert stage.loss(terms).item() == 1.5


def test_a_loss_depends_on_labels_in_the_stages_that_say_so_and_in_no_other(
    bert: Encoder, batch: Batch, method: Method
) -> None:
    for stage in method.stages(Training()):
        torch.manual_seed(0)
        model = Model(bert, stage.new_modules(bert, 2))
        losses = []
        for y in ([0, 1, 0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 1, 1, 0, 0]):
            torch.manual_seed(1)
            seen = replace(batch, y=torch.tensor(y), rates=stage.rates_at(0))
            losses.append(stage.loss(stage.terms(model, seen)).item())
        assert (losses[0] != losses[1]) == stage.labeled


@pytest.mark.parametrize("name", METHODS)
def test_the_methods_with_a_stage_without_labels_are_those_of_post_training_and_simcse(
    name: str,
) -> None:
    found = reads_unlabeled(method_class(name)(), Training())
    assert found == (name in {"cmlm", "tapt", "cssl", "simcse"})


def test_balanced_batches_read_labels_whatever_the_loss_does() -> None:
    balanced = Training(batch_sampling="balanced")
    assert not reads_unlabeled(method_class("simcse")(), balanced)
    assert reads_unlabeled(method_class("tapt")(), balanced)
