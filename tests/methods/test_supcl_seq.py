"""SupCL-Seq, SimCSE and dropout augmentation: views, contrast over them, and the probe."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
import torch.nn.functional as F

from sclsearch.methods.base import Batch, Pooling, Training
from sclsearch.methods.scl import CE
from sclsearch.methods.supcl_seq import DropoutAug, SimCSE, SupCLSeq
from sclsearch.objectives import sup_con
from tests.methods.conftest import Made

Rates = tuple[float, ...]

# Field `dropouts`, and the rates of the released code at the first and at later updates.
OFFICIAL: tuple[tuple[Rates, Rates, Rates], ...] = (
    ((0.0, 0.1, 0.2), (0.1, 0.0, 0.0, 0.2), (0.1, 0.0, 0.0, 0.2)),
    ((0.0, 0.2), (0.1, 0.0, 0.2), (0.1, 0.0, 0.2)),
    ((0.1, 0.1), (0.1, 0.1, 0.1), (0.1, 0.1, 0.1)),
    ((0.0, 0.1), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)),
)


@pytest.mark.parametrize(("dropouts", "first", "later"), OFFICIAL, ids=str)
def test_the_released_code_adds_a_view_and_never_sets_dropout_to_0_1(
    dropouts: Rates, first: Rates, later: Rates
) -> None:
    assert SupCLSeq(dropouts=dropouts).view_rates(0) == dropouts
    method = SupCLSeq(dropouts=dropouts, view_mode="official_code")
    assert [method.view_rates(update) for update in range(4)] == [first, later, later, later]


@pytest.mark.parametrize("rates", [(0.0, 0.1, 0.2), (0.0, 0.0)], ids=str)
def test_all_rows_of_all_views_are_anchors(made: Made, batch: Batch, rates: Rates) -> None:
    method = SupCLSeq(tau=0.2)
    model, views = made(method), replace(batch, dropout_rates=rates)
    torch.manual_seed(4)
    z = model.embed(views, "cls_pooled")  # [V * 8, 16]
    torch.manual_seed(4)
    terms = method.contrast(model, views)
    assert list(terms) == ["sup_con"]
    expected = sup_con(z, torch.cat([batch.y] * len(rates)), tau=0.2)
    torch.testing.assert_close(terms["sup_con"], expected)


@pytest.mark.parametrize("pooling", ["cls_raw", "cls_pooled", "mean"])
def test_contrast_and_probe_read_one_pooling(
    made: Made, batch: Batch, pooling: Literal["cls_raw", "cls_pooled", "mean"]
) -> None:
    method = SupCLSeq(pooling=pooling)
    model = made(method).eval()
    z = model.embed(batch, pooling)
    expected = sup_con(z, batch.y, tau=method.tau)
    torch.testing.assert_close(method.contrast(model, batch)["sup_con"], expected)
    torch.testing.assert_close(method.scores(model, batch), model.new_modules["head"](z, 0.0))
    assert method.stages(Training())[1].frozen_pooling == pooling


def test_regression_scores_equal_to_one_decimal_are_positives(made: Made, batch: Batch) -> None:
    scores = torch.tensor([0.0, 0.04, 2.44, 2.36, 2.5, 5.0, 4.96, 4.94])
    classes = torch.tensor([0, 0, 24, 24, 25, 50, 50, 49])
    method = SupCLSeq()
    model = made(method, classes=0)
    found = method.contrast(model, replace(batch, y=scores))["sup_con"]
    assert found == method.contrast(model, replace(batch, y=classes))["sup_con"]
    assert found.item() > 0


@pytest.mark.parametrize("classes", [0, 2])
def test_the_probe_minimizes_cross_entropy_or_squared_error(
    made: Made, batch: Batch, classes: int
) -> None:
    method, features = SupCLSeq(), torch.rand(8, 16)
    y, model = batch.y if classes else torch.rand(8), made(method, classes=classes)
    scores = model.new_modules["head"](features, 0.0)
    terms = method.terms(model, replace(batch, features=features, y=y))
    assert list(terms) == ["probe"]
    expected = F.cross_entropy(scores, y) if classes else ((scores - y) ** 2).mean()
    torch.testing.assert_close(terms["probe"], expected)


def test_simcse_takes_every_other_view_of_a_text_as_positive(made: Made, batch: Batch) -> None:
    tau = 0.2
    method = SimCSE(tau=tau, pooling="mean")
    contrast, _ = method.stages(Training())
    model, views = made(method, stage=0), replace(batch, dropout_rates=contrast.dropout_rates_at(0))
    torch.manual_seed(4)
    z = F.normalize(model.embed(views, "mean"), dim=1)
    costs = []
    for anchor in range(24):
        others = [row for row in range(24) if row != anchor]
        whole = torch.stack([z[anchor] @ z[row] / tau for row in others]).logsumexp(0)
        positives = [row for row in others if row % 8 == anchor % 8]
        assert len(positives) == 2
        costs += [whole - z[anchor] @ z[row] / tau for row in positives]
    torch.manual_seed(4)
    found = contrast.terms(model, views)["sup_con"]
    torch.testing.assert_close(found, torch.stack(costs).mean())


@pytest.mark.parametrize("pooling", ["head_hidden", "cls_raw", "cls_pooled", "mean"])
@pytest.mark.parametrize("classes", [0, 2])
def test_dropout_augmentation_without_dropout_is_cross_entropy(
    made: Made, batch: Batch, pooling: Pooling, classes: int
) -> None:
    method, one = DropoutAug(pooling=pooling, dropouts=(0.0, 0.0, 0.0)), CE(pooling=pooling)
    model = made(method, classes)
    plain = batch if classes else replace(batch, y=torch.rand(8))
    terms = method.terms(model, replace(plain, dropout_rates=method.dropouts))
    assert list(terms) == ["ce"]
    torch.testing.assert_close(terms["ce"], one.terms(model, plain)["ce"])
    torch.testing.assert_close(method.scores(model, plain), one.scores(model, plain))


@pytest.mark.parametrize("classes", [0, 2])
def test_dropout_augmentation_averages_the_losses_of_the_views(
    made: Made, batch: Batch, classes: int
) -> None:
    method, rates = DropoutAug(), (0.0, 0.2, 0.4)
    model = made(method, classes)
    y = batch.y if classes else torch.rand(8)
    views = replace(batch, y=y, dropout_rates=rates)
    torch.manual_seed(4)
    embeddings = model.embed(views, "cls_pooled").chunk(3)
    head = model.new_modules["head"]
    scores = [head(z, rate) for z, rate in zip(embeddings, rates, strict=True)]
    each = [F.cross_entropy(s, y) if classes else ((s - y) ** 2).mean() for s in scores]
    torch.manual_seed(4)
    torch.testing.assert_close(method.terms(model, views)["ce"], torch.stack(each).mean())
    assert len({loss.item() for loss in each}) == 3
