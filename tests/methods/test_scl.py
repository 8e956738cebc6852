"""Tests of cross-entropy, SCL, CE+CL, and of contrasts and losses over dropout views."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from transformers import BertForSequenceClassification

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.methods.base import Batch, Model, Pooling, Training, encoder_pooling
from sclsearch.methods.scl import CE, CECL, SCL
from sclsearch.methods.supcl_seq import DropoutAug, SupCLSeq
from sclsearch.objectives import nt_xent, sup_con
from tests.methods.conftest import Made

POOLINGS: tuple[Pooling, ...] = ("head_hidden", "cls_raw", "cls_pooled", "mean")
EACH_POOLING = pytest.mark.parametrize("pooling", POOLINGS)


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("classes", [0, 3])
def test_cls_pooled_with_a_linear_head_equals_the_classifier_of_bert(
    tiny_bert: Path, bert: Encoder, batch: Batch, classes: int, training: bool
) -> None:
    theirs = BertForSequenceClassification.from_pretrained(tiny_bert, num_labels=max(classes, 1))
    method = CE(pooling="cls_pooled")
    bert.can_trim = False  # transformers draws dropout for the whole last layer
    ours = Model(bert, method.new_modules(bert, classes)).train(training)
    ours.get_submodule("new_modules.head.out").load_state_dict(theirs.classifier.state_dict())
    y = batch.y if classes else batch.y / 3
    torch.manual_seed(4)
    expected = theirs.train(training)(
        input_ids=batch.ids, attention_mask=batch.mask, token_type_ids=batch.types, labels=y
    ).loss
    torch.manual_seed(4)
    terms = method.terms(ours, replace(batch, y=y, dropout_rates=(0.1,)))
    assert list(terms) == ["ce"]
    torch.testing.assert_close(terms["ce"], expected)


def test_g_is_between_the_pooling_and_the_head(made: Made, batch: Batch) -> None:
    method = CE(pooling="mean", projection="g")
    model = made(method).eval()
    head, g = model.new_modules["head"], model.new_modules["g"]
    assert [tuple(p.shape) for p in g.parameters()] == [(16, 16), (16,)] * 3
    expected = head(g(model.embed(batch, "mean")), 0.0)
    torch.testing.assert_close(method.scores(model, batch), expected)


@pytest.mark.parametrize("features", POOLINGS)
@EACH_POOLING
def test_scl_contrasts_one_embedding_and_classifies_another(
    made: Made, batch: Batch, pooling: Pooling, features: Pooling
) -> None:
    method = SCL(pooling=pooling, scl_features=features, lam=0.3)
    model = made(method)
    head = model.new_modules["head"]
    assert isinstance(head, Head)
    assert (head.dense is not None) == ("head_hidden" in {pooling, features})
    read = model.embed(batch, encoder_pooling(pooling))
    z = head.features(read, 0.0) if features == "head_hidden" else model.embed(batch, features)
    terms, scores = method.contrast(model, batch), method.scores(model, batch)
    torch.testing.assert_close(terms["scl"], 0.3 * sup_con(z, batch.y, tau=method.tau))
    torch.testing.assert_close(scores, head(read, 0.0))
    torch.testing.assert_close(terms["ce"], 0.7 * F.cross_entropy(scores, batch.y))


@pytest.mark.parametrize(("pooling", "frozen"), [("head_hidden", "cls_raw"), ("mean", "mean")])
def test_scl_at_lam_1_trains_the_head_only_in_a_probe_on_the_frozen_encoder(
    made: Made, batch: Batch, pooling: Pooling, frozen: str
) -> None:
    training, method = Training(learning_rate=1e-5), SCL(lam=1.0, pooling=pooling)
    contrast, probe = method.stages(training)
    assert (contrast.training, contrast.frozen_pooling) == (training, None)
    assert (probe.training, probe.frozen_pooling) == (replace(training, learning_rate=1e-3), frozen)
    model, features = made(method), replace(batch, features=torch.rand(8, 16))
    contrast.loss(contrast.terms(model, batch)).backward()  # type: ignore[no-untyped-call]
    assert not any(p.grad is not None and p.grad.any() for p in model.new_modules.parameters())
    assert any(p.grad is not None and p.grad.any() for p in model.encoder.parameters())
    model.zero_grad()
    probe.loss(probe.terms(model, features)).backward()  # type: ignore[no-untyped-call]
    assert any(p.grad is not None and p.grad.any() for p in model.new_modules.parameters())


@pytest.mark.parametrize("contrast_pooling", ["mean", "cls_raw", "cls_pooled"])
@EACH_POOLING
def test_ce_cl_contrasts_two_views_and_averages_their_cross_entropies(
    made: Made, batch: Batch, pooling: Pooling, contrast_pooling: Pooling
) -> None:
    method = CECL(tau=0.2, alpha=0.6, pooling=pooling, contrast_pooling=contrast_pooling)  # type: ignore[arg-type]
    model, views = made(method), replace(batch, dropout_rates=(0.3, 0.3))
    torch.manual_seed(4)
    pooled, z = model.embeddings(views, encoder_pooling(pooling), contrast_pooling)
    logits = model.new_modules["head"](pooled, 0.3).chunk(2)
    torch.manual_seed(4)
    terms = method.terms(model, views)
    first, second = (F.cross_entropy(one, batch.y) for one in logits)
    assert first != second
    assert list(terms) == ["ce", "nt_xent"]
    torch.testing.assert_close(terms["ce"], (first + second) / 2)
    torch.testing.assert_close(terms["nt_xent"], 0.6 * nt_xent(*z.chunk(2), tau=0.2))


def test_the_released_code_adds_a_view_and_never_sets_dropout_to_0_1() -> None:
    # Field `dropouts`, and the rates of the released code at the first and at later updates.
    for dropouts, first, later in (
        ((0.0, 0.1, 0.2), (0.1, 0.0, 0.0, 0.2), (0.1, 0.0, 0.0, 0.2)),
        ((0.0, 0.2), (0.1, 0.0, 0.2), (0.1, 0.0, 0.2)),
        ((0.0, 0.1), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ):
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
