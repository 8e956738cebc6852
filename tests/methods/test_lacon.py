"""LaCon is ICL' + LCL + λ LER of what g makes of the text, and the nearest label wins."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.lacon import LaCon, vectors_of

TEXTS = torch.tensor([[1, 2, 0, 1], [0, 1, 1, -1], [2, 0, 1, 1], [-1, 1, 2, 0]], dtype=torch.float)
LABELS = torch.tensor([[1, 1, 0, 1], [1, -1, 1, 0]], dtype=torch.float)
Y = torch.tensor([0, 1, 0, 1])
# By hand, in float64: each setting with the terms that it gives the texts and labels above.
BY_HAND: tuple[tuple[dict[str, Any], dict[str, float]], ...] = (
    ({}, {"icl": 1.696753, "lcl": 0.598715, "ler": 0.859141}),
    ({"lam": 0.0}, {"icl": 1.696753, "lcl": 0.598715, "ler": 0.0}),
    ({"heads": 1}, {"icl": 0.542481, "lcl": 0.598715, "ler": 0.859141}),
    ({"icl_head_reduction": "mean"}, {"icl": 0.8483765, "lcl": 0.598715, "ler": 0.859141}),
    ({"lcl_positive_reduction": "mean"}, {"icl": 1.696753, "lcl": 0.299357, "ler": 0.859141}),
    (
        {"lcl_positive_reduction": "mean", "lcl_denominator": "all"},
        {"icl": 1.696753, "lcl": 1.399823, "ler": 0.859141},
    ),
    ({"ler_reduction": "sum"}, {"icl": 1.696753, "lcl": 0.598715, "ler": 1.718282}),
    ({"icl": False}, {"lcl": 0.598715, "ler": 0.859141}),
    ({"lcl": False}, {"icl": 1.696753, "ler": 0.859141}),
    ({"tau": 9.0, "tau_lcl": 0.5, "icl": False}, {"lcl": 0.598715, "ler": 0.859141}),
    ({"tau_lcl": 9.0, "lcl": False}, {"icl": 1.696753, "ler": 0.859141}),
)


def made(method: LaCon, encoder: Encoder, classes: int = 2) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, classes)).train()


def matching(encoder: Encoder) -> Model:
    """Returns a model of the label vectors above and no g."""
    labels = nn.Embedding(2, 4, _weight=LABELS)
    return Model(encoder, nn.ModuleDict({"labels": labels, "g": nn.Sequential()}))


@pytest.mark.parametrize(("settings", "expected"), BY_HAND, ids=str)
def test_the_terms_are_those_that_were_computed_by_hand(
    bert: Encoder, settings: dict[str, Any], expected: dict[str, float]
) -> None:
    method = replace(LaCon(tau=0.5, lam=0.5, heads=2), **settings)
    terms = method.losses(matching(bert), TEXTS, Y)
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, abs=2e-6)


def test_in_a_head_slices_are_compared_by_their_cosine_or_their_product(bert: Encoder) -> None:
    method = LaCon(tau=0.5, heads=2, head_sim="dot")
    h, labels = F.normalize(TEXTS), F.normalize(LABELS)
    heads = [h[:, cut] @ labels[:, cut].T for cut in (slice(0, 2), slice(2, 4))]
    expected = torch.stack([F.cross_entropy(head / 0.5, Y) for head in heads]).sum()
    torch.testing.assert_close(method.losses(matching(bert), TEXTS, Y)["icl"], expected)


@pytest.mark.parametrize("predict", ["full", "head_mean"])
def test_scores_are_cosines_of_whole_vectors_or_the_mean_over_heads(
    bert: Encoder, predict: Literal["full", "head_mean"]
) -> None:
    def cosines(cut: slice) -> Tensor:
        return F.cosine_similarity(TEXTS[:, None, cut], LABELS[None, :, cut], dim=2)

    scores = LaCon(heads=2, predict=predict).matches(matching(bert), TEXTS)
    full, heads = cosines(slice(0, 4)), (cosines(slice(0, 2)) + cosines(slice(2, 4))) / 2
    torch.testing.assert_close(scores, full if predict == "full" else heads)
    assert predict == "head_mean" or scores.argmax(1).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("layers", [0, 3])
@pytest.mark.parametrize("pooling", ["cls_raw", "cls_pooled", "mean"])
def test_terms_and_scores_read_what_g_makes_of_the_pooling(
    bert: Encoder, batch: Batch, pooling: Literal["cls_raw", "cls_pooled", "mean"], layers: int
) -> None:
    method = LaCon(heads=4, pooling=pooling, g_layers=layers)
    model = made(method, bert)
    z = model.embed(batch, pooling)
    h = model.new_modules["g"](z)
    assert torch.equal(h, z) == (layers == 0)
    cosines = F.normalize(h) @ F.normalize(vectors_of(model)).T
    torch.testing.assert_close(method.scores(model, batch), cosines)
    assert method.terms(model, batch) == method.losses(model, z, batch.y)


def test_the_fields_make_the_parts(bert: Encoder) -> None:
    new_modules = LaCon(g_layers=2, g_final_relu=True, label_init_std=0.5).new_modules(bert, 300)
    assert [type(layer) for layer in new_modules["g"].children()] == [nn.Linear, nn.ReLU] * 2
    (weight,) = new_modules["labels"].parameters()
    assert weight.shape == (300, 16)
    assert weight.std().item() == pytest.approx(0.5, rel=0.05)


def test_there_is_one_stage_and_label_vectors_and_g_have_their_own_rates() -> None:
    training = Training(dropout=0.2)
    (stage,) = LaCon(label_lr_mult=10.0, g_lr_mult=3.0).stages(training)
    assert (stage.training, stage.rates_at(0), stage.frozen_pooling) == (training, (0.2,), None)
    assert stage.lr_scales == {"labels": 10.0, "g": 3.0}
    assert stage.no_weight_decay == ("labels",)


def test_texts_and_label_vectors_and_g_get_a_gradient(bert: Encoder, batch: Batch) -> None:
    method = LaCon(heads=4)
    model = made(method, bert)
    (stage,) = method.stages(Training())
    stage.loss(stage.terms(model, batch)).backward()  # type: ignore[no-untyped-call]
    for part in (model.encoder, model.new_modules["labels"], model.new_modules["g"]):
        assert any(p.grad is not None and p.grad.any() for p in part.parameters())


def test_a_batch_of_one_class_costs_no_contrast_of_labels(bert: Encoder, batch: Batch) -> None:
    method = LaCon(heads=4)
    terms = method.terms(made(method, bert), replace(batch, y=torch.ones_like(batch.y)))
    assert terms["lcl"] == 0
    assert terms["icl"] > 0


def test_what_an_encoder_cannot_do_is_refused_under_the_name_of_the_field(
    bert: Encoder, tiny_roberta: Path
) -> None:
    assert LaCon(heads=4).check(bert) == ()
    with pytest.raises(SclsearchError, match=r"^heads: must divide .* Use one of 1, 2, 4"):
        LaCon(heads=6).check(bert)
    with pytest.raises(SclsearchError, match=r"^pooling: 'cls_pooled' needs a pretrained pooler"):
        LaCon(heads=4, pooling="cls_pooled").check(load_encoder(tiny_roberta, "roberta"))


def test_without_both_contrasts_there_is_nothing_to_learn(bert: Encoder) -> None:
    LaCon(heads=4, icl=False).check(bert)
    LaCon(heads=4, lcl=False).check(bert)
    with pytest.raises(SclsearchError, match=r"^icl, lcl: one of them must be true, but both"):
        LaCon(heads=4, icl=False, lcl=False).check(bert)
