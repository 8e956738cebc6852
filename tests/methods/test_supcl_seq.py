"""SupCL-Seq: the views of paper and released code, the contrast over them, and the probe."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
import torch.nn.functional as F

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.supcl_seq import SupCLSeq
from sclsearch.objectives import sup_con

Rates = tuple[float, ...]

# The list, what the released code runs at the first update, and at every later one.
OFFICIAL: tuple[tuple[Rates, Rates, Rates], ...] = (
    ((0.0, 0.1, 0.2), (0.1, 0.0, 0.0, 0.2), (0.1, 0.0, 0.0, 0.2)),
    ((0.0, 0.05, 0.1, 0.2), (0.1, 0.0, 0.05, 0.05, 0.2), (0.1, 0.0, 0.05, 0.05, 0.2)),
    ((0.0, 0.2), (0.1, 0.0, 0.2), (0.1, 0.0, 0.2)),
    ((0.0, 0.2, 0.3, 0.4, 0.5), (0.1, 0.0, 0.2, 0.3, 0.4, 0.5), (0.1, 0.0, 0.2, 0.3, 0.4, 0.5)),
    ((0.1, 0.1), (0.1, 0.1, 0.1), (0.1, 0.1, 0.1)),
    ((0.0, 0.1), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ((0.0, 0.1, 0.2, 0.3), (0.1, 0.0, 0.0, 0.2, 0.3), (0.1, 0.0, 0.0, 0.2, 0.3)),
    ((0.0, 0.1, 0.2, 0.3, 0.4), (0.1, 0.0, 0.0, 0.2, 0.3, 0.4), (0.1, 0.0, 0.0, 0.2, 0.3, 0.4)),
)
EACH_LIST = pytest.mark.parametrize(("dropouts", "first", "later"), OFFICIAL, ids=str)


def made(method: SupCLSeq, encoder: Encoder, classes: int = 2) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, classes)).train()


@EACH_LIST
def test_the_paper_has_a_view_for_each_listed_rate(
    dropouts: Rates, first: Rates, later: Rates
) -> None:
    method = SupCLSeq(dropouts=dropouts)
    assert [method.view_rates(update) for update in range(3)] == [dropouts] * 3


@EACH_LIST
def test_the_released_code_has_a_view_more_and_never_sets_the_rate_to_a_tenth(
    dropouts: Rates, first: Rates, later: Rates
) -> None:
    method = SupCLSeq(dropouts=dropouts, view_mode="official_code")
    assert [method.view_rates(update) for update in range(4)] == [first, later, later, later]


@pytest.mark.parametrize("rates", [(0.0, 0.1, 0.2), (0.0, 0.0)], ids=str)
def test_the_contrast_takes_every_row_of_every_view_as_anchor(
    bert: Encoder, batch: Batch, rates: Rates
) -> None:
    method = SupCLSeq(tau=0.2)
    model, views = made(method, bert), replace(batch, rates=rates)
    torch.manual_seed(4)
    z = model.embed(views, "cls_pooled")  # [V * 8, 16]
    torch.manual_seed(4)
    terms = method.contrast(model, views)
    assert list(terms) == ["sup_con"]
    expected = sup_con(z, torch.cat([batch.y] * len(rates)), tau=0.2)
    torch.testing.assert_close(terms["sup_con"], expected)


@pytest.mark.parametrize("pooling", ["cls_raw", "cls_pooled", "mean"])
def test_contrast_and_probe_read_one_pooling(
    bert: Encoder, batch: Batch, pooling: Literal["cls_raw", "cls_pooled", "mean"]
) -> None:
    method = SupCLSeq(pooling=pooling)
    model = made(method, bert).eval()
    z = model.embed(batch, pooling)
    expected = sup_con(z, batch.y, tau=method.tau)
    torch.testing.assert_close(method.contrast(model, batch)["sup_con"], expected)
    torch.testing.assert_close(method.scores(model, batch), model.new_modules["head"](z, 0.0))
    assert method.stages(Training())[1].frozen_pooling == pooling


@pytest.mark.parametrize("tau", [0.05, 0.07, 0.2])
def test_the_released_codes_factor_is_tau_over_seven_hundredths(
    bert: Encoder, batch: Batch, tau: float
) -> None:
    method = SupCLSeq(tau=tau)
    model = made(method, bert)
    plain = method.contrast(model, batch)["sup_con"]
    scaled = replace(method, loss_scale="tau_over_base").contrast(model, batch)["sup_con"]
    torch.testing.assert_close(scaled, plain * (tau / 0.07))


def test_scores_that_agree_to_one_decimal_are_one_class(bert: Encoder, batch: Batch) -> None:
    scores = torch.tensor([0.0, 0.04, 2.44, 2.36, 2.5, 5.0, 4.96, 4.94])
    classes = torch.tensor([0, 0, 24, 24, 25, 50, 50, 49])
    method = SupCLSeq()
    model = made(method, bert, classes=0)
    found = method.contrast(model, replace(batch, y=scores))["sup_con"]
    assert found == method.contrast(model, replace(batch, y=classes))["sup_con"]
    assert found.item() > 0


def test_the_probe_learns_classes_by_cross_entropy(bert: Encoder, batch: Batch) -> None:
    method, features = SupCLSeq(), torch.rand(8, 16)
    model = made(method, bert)
    logits = model.new_modules["head"](features, 0.0)
    terms = method.terms(model, replace(batch, features=features))
    assert list(terms) == ["probe"]
    torch.testing.assert_close(terms["probe"], F.cross_entropy(logits, batch.y))


def test_the_probe_learns_scores_by_squared_error(bert: Encoder, batch: Batch) -> None:
    method, features, y = SupCLSeq(), torch.rand(8, 16), torch.rand(8)
    model = made(method, bert, classes=0)
    found = method.terms(model, replace(batch, features=features, y=y))["probe"]
    torch.testing.assert_close(found, ((model.new_modules["head"](features, 0.0) - y) ** 2).mean())


def test_contrast_and_then_probe_have_their_own_settings() -> None:
    training = Training(learning_rate=5e-5, epochs=2, batch_size=48, dropout=0.2)
    method = SupCLSeq(probe_learning_rate=3e-3, probe_epochs=7)
    contrast, probe = method.stages(training)
    assert (contrast.name, contrast.training, contrast.frozen_pooling) == (
        "contrast",
        training,
        None,
    )
    assert [contrast.rates_at(update) for update in (0, 1)] == [(0.0, 0.1, 0.2)] * 2
    assert probe.training == replace(training, learning_rate=3e-3, epochs=7)
    assert (probe.name, probe.rates_at(0)) == ("probe", (0.2,))


@pytest.mark.parametrize(("mode", "cached"), [("eval", True), ("train", False)])
def test_features_are_cached_unless_the_probes_encoder_keeps_its_dropout(
    mode: Literal["eval", "train"], cached: bool
) -> None:
    probe = SupCLSeq(probe_encoder_mode=mode).stages(Training())[1]
    assert (probe.cached, probe.encoder_train_mode) == (cached, not cached)


def test_the_probe_is_one_linear_layer(bert: Encoder) -> None:
    shapes = {
        name: tuple(p.shape) for name, p in SupCLSeq().new_modules(bert, 3).named_parameters()
    }
    assert shapes == {"head.out.weight": (3, 16), "head.out.bias": (3,)}


def test_encoders_without_pooler_or_rates_by_view_are_refused(
    bert: Encoder, tiny_roberta: Path, tiny_mpnet: Path
) -> None:
    SupCLSeq().check(bert)
    roberta, mpnet = load_encoder(tiny_roberta, "roberta"), load_encoder(tiny_mpnet, "mpnet")
    SupCLSeq(pooling="mean").check(roberta)
    with pytest.raises(SclsearchError, match=r"^pooling: 'cls_pooled' needs a pretrained pooler"):
        SupCLSeq().check(roberta)
    with pytest.raises(SclsearchError, match=r"^dropouts: model .* cannot have"):
        SupCLSeq(pooling="mean").check(mpnet)
