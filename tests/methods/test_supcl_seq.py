"""SupCL-Seq, SimCSE and dropout augmentation: views, contrast over them, and the probe."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
import torch.nn.functional as F

from sclsearch.methods.base import Batch, Pooling, Training, encoder_pooling
from sclsearch.methods.scl import CE
from sclsearch.methods.supcl_seq import DropoutAug, SimCSE, SupCLSeq
from sclsearch.objectives import sup_con
from tests.methods.conftest import POOLINGS, Made

Rates = tuple[float, ...]
# Field `dropouts`, and the rates of the released code at the first and at later updates.
OFFICIAL: tuple[tuple[Rates, Rates, Rates], ...] = (
    ((0.0, 0.1, 0.2), (0.1, 0.0, 0.0, 0.2), (0.1, 0.0, 0.0, 0.2)),
    ((0.0, 0.2), (0.1, 0.0, 0.2), (0.1, 0.0, 0.2)),
    ((0.0, 0.1), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)),
)


@pytest.mark.parametrize(("dropouts", "first", "later"), OFFICIAL, ids=str)
def test_the_released_code_adds_a_view_and_never_sets_dropout_to_0_1(
    dropouts: Rates, first: Rates, later: Rates
) -> None:
    assert SupCLSeq(dropouts=dropouts).view_rates(0) == dropouts
    method = SupCLSeq(dropouts=dropouts, view_mode="official_code")
    assert [method.view_rates(update) for update in range(4)] == [first, later, later, later]


@pytest.mark.parametrize("pooling", ["cls_raw", "cls_pooled", "mean"])
def test_all_rows_of_all_views_are_anchors_and_the_probe_reads_the_same_pooling(
    made: Made, batch: Batch, pooling: Literal["cls_raw", "cls_pooled", "mean"]
) -> None:
    method, rates = SupCLSeq(tau=0.2, pooling=pooling), (0.0, 0.1, 0.2)
    model, views = made(method), replace(batch, dropout_rates=rates)
    torch.manual_seed(4)
    z = model.embed(views, pooling)  # [3 * 8, 16]
    torch.manual_seed(4)
    terms = method.contrast(model, views)
    assert list(terms) == ["sup_con"]
    torch.testing.assert_close(terms["sup_con"], sup_con(z, torch.cat([batch.y] * 3), tau=0.2))
    head, probe = model.new_modules["head"], method.stages(Training())[1]
    expected = head(model.embed(batch, pooling), 0.0)
    torch.testing.assert_close(method.scores(model, batch), expected)
    assert probe.frozen_pooling == pooling


def test_regression_scores_equal_to_one_decimal_are_positives(made: Made, batch: Batch) -> None:
    scores = torch.tensor([0.0, 0.04, 2.44, 2.36, 2.5, 5.0, 4.96, 4.94])
    classes = torch.tensor([0, 0, 24, 24, 25, 50, 50, 49])
    method = SupCLSeq()
    model = made(method, classes=0)
    found = method.contrast(model, replace(batch, y=scores))["sup_con"]
    assert found == method.contrast(model, replace(batch, y=classes))["sup_con"]
    assert found.item() > 0


def test_simcse_takes_every_other_view_of_a_text_as_positive(made: Made, batch: Batch) -> None:
    method = SimCSE(tau=0.2, pooling="mean")
    contrast, _ = method.stages(Training())
    model, views = made(method, stage=0), replace(batch, dropout_rates=contrast.dropout_rates_at(0))
    torch.manual_seed(4)
    z = model.embed(views, "mean")
    torch.manual_seed(4)
    expected = sup_con(z, torch.arange(8).repeat(3), tau=0.2)
    torch.testing.assert_close(contrast.terms(model, views)["sup_con"], expected)


@pytest.mark.parametrize("classes", [0, 2])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_dropout_augmentation_averages_the_losses_of_the_views(
    made: Made, batch: Batch, pooling: Pooling, classes: int
) -> None:
    method, rates = DropoutAug(pooling=pooling), (0.0, 0.2, 0.4)
    model = made(method, classes)
    y = batch.y if classes else torch.rand(8)
    views = replace(batch, y=y, dropout_rates=rates)
    torch.manual_seed(4)
    embeddings = model.embed(views, encoder_pooling(pooling)).chunk(3)
    head = model.new_modules["head"]
    scores = [head(z, rate) for z, rate in zip(embeddings, rates, strict=True)]
    each = [F.cross_entropy(s, y) if classes else ((s - y) ** 2).mean() for s in scores]
    torch.manual_seed(4)
    terms = method.terms(model, views)
    assert list(terms) == ["ce"]
    torch.testing.assert_close(terms["ce"], torch.stack(each).mean())
    assert len({loss.item() for loss in each}) == 3
    plain = CE(pooling=pooling)
    assert torch.equal(method.scores(model, batch), plain.scores(model, batch))
