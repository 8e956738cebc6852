"""Tests of LaCon, LaCon-fusion, LEAM and LSAN: their loss terms, scores and modules."""

from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import WindowAttention
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model
from sclsearch.methods.lacon import LEAM, LSAN, LaCon, LaConFusion, vectors_of
from tests.methods.conftest import Made

TEXTS = torch.tensor([[1, 2, 0, 1], [0, 1, 1, -1], [2, 0, 1, 1], [-1, 1, 2, 0]], dtype=torch.float)
LABELS = torch.tensor([[1, 1, 0, 1], [1, -1, 1, 0]], dtype=torch.float)
Y = torch.tensor([0, 1, 0, 1])
# Fields and the loss terms that they give for the tensors above, computed in float64.
EXPECTED_TERMS: tuple[tuple[dict[str, Any], dict[str, float]], ...] = (
    ({}, {"icl": 1.696753, "lcl": 0.598715, "ler": 0.859141}),
    ({"lam": 0.0}, {"icl": 1.696753, "lcl": 0.598715, "ler": 0.0}),
    ({"heads": 1}, {"icl": 0.542481, "lcl": 0.598715, "ler": 0.859141}),
    ({"icl": False}, {"lcl": 0.598715, "ler": 0.859141}),
    ({"lcl": False}, {"icl": 1.696753, "ler": 0.859141}),
)


def fixed_example(encoder: Encoder, batch: Batch) -> tuple[Model, Batch]:
    """Return a model with the label vectors above, and a batch with the embeddings above."""
    labels = nn.Embedding(2, 4, _weight=LABELS)
    model = Model(encoder, nn.ModuleDict({"labels": labels, "g": nn.Sequential()}))
    return model, replace(batch, y=Y, features=TEXTS)


@pytest.mark.parametrize(("settings", "expected"), EXPECTED_TERMS, ids=str)
def test_the_fields_determine_the_loss_terms(
    bert: Encoder, batch: Batch, settings: dict[str, Any], expected: dict[str, float]
) -> None:
    method = replace(LaCon(tau=0.5, lam=0.5, heads=2), **settings)
    terms = method.terms(*fixed_example(bert, batch))
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, abs=2e-6)


def test_scores_are_cosines_of_whole_vectors(bert: Encoder, batch: Batch) -> None:
    scores = LaCon(heads=2).scores(*fixed_example(bert, batch))
    torch.testing.assert_close(scores, F.cosine_similarity(TEXTS[:, None], LABELS[None], dim=2))
    assert scores.argmax(1).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("layers", [0, 3])
@pytest.mark.parametrize("pooling", ["cls_raw", "cls_pooled", "mean"])
def test_terms_and_scores_use_the_output_of_g(
    made: Made, batch: Batch, pooling: Literal["cls_raw", "cls_pooled", "mean"], layers: int
) -> None:
    method = LaCon(heads=4, pooling=pooling, g_layers=layers)
    model = made(method)
    z = model.embed(batch, pooling)
    h = model.new_modules["g"](z)
    assert torch.equal(h, z) == (layers == 0)
    cosines = F.normalize(h) @ F.normalize(vectors_of(model)).T
    torch.testing.assert_close(method.scores(model, batch), cosines)
    cached = replace(batch, features=z)
    assert method.terms(model, batch) == method.terms(model, cached)


def test_the_fields_determine_the_new_modules(bert: Encoder) -> None:
    new_modules = LaCon(g_layers=2).new_modules(bert, 300)
    assert [type(layer) for layer in new_modules["g"].children()] == [nn.Linear, nn.ReLU, nn.Linear]
    (weight,) = new_modules["labels"].parameters()
    assert weight.shape == (300, 16)


def test_the_fields_of_fusion_determine_its_attention(bert: Encoder) -> None:
    attention = LaConFusion(fusion_kernel=3).new_modules(bert, 300)["attention"]
    assert isinstance(attention, WindowAttention)
    assert attention.conv.weight.shape == (300, 300, 3)


def test_disabling_icl_and_lcl_is_an_error(bert: Encoder) -> None:
    LaCon(heads=4, icl=False).check(bert)
    LaCon(heads=4, lcl=False).check(bert)
    with pytest.raises(SclsearchError, match=r"^icl, lcl: both are false"):
        LaCon(heads=4, icl=False, lcl=False).check(bert)


def test_fusion_has_the_terms_and_scores_of_lacon_on_its_text_embeddings(
    made: Made, batch: Batch
) -> None:
    shared: dict[str, Any] = {"tau": 0.3, "lam": 0.2, "heads": 4}
    method, plain = LaConFusion(**shared), LaCon(**shared)
    model = made(method)
    embedded = replace(batch, features=method.text_embeddings(model, batch))
    torch.testing.assert_close(method.terms(model, batch), plain.terms(model, embedded))
    torch.testing.assert_close(method.scores(model, batch), plain.scores(model, embedded))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (LaCon(heads=6), "heads: must divide .* 16, got 6. Use one of 1, 2, 4, 8, 16"),
        (LaConFusion(heads=6), "heads: "),
        (LaConFusion(heads=4, fusion_kernel=4), "fusion_kernel: "),
    ],
    ids=["LaCon", "LaConFusion", "even kernel"],
)
def test_wrong_numbers_of_heads_and_even_kernels_are_errors(
    bert: Encoder, method: LaCon | LaConFusion, message: str
) -> None:
    with pytest.raises(SclsearchError, match=f"^{message}"):
        method.check(bert)


def classified(model: Model, z: Tensor) -> Tensor:
    """Return the logits of embeddings `[N, d]` without dropout."""
    first, second = (
        layer for layer in model.new_modules["mlp"].children() if hasattr(layer, "weight")
    )
    logits: Tensor = second(first(z).relu())
    return logits


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0])
def test_leam_classifies_texts_and_label_vectors_with_one_mlp(
    made: Made, batch: Batch, penalty: float
) -> None:
    method = LEAM(label_penalty=penalty)
    model = made(method).eval()
    labels = vectors_of(model)
    attention = model.new_modules["attention"]
    z = attention(model.hidden(batch), labels, batch.mask)
    terms = method.terms(model, batch)
    assert list(terms) == ["ce", "label"]
    torch.testing.assert_close(terms["ce"], F.cross_entropy(classified(model, z), batch.y))
    own = F.cross_entropy(classified(model, labels), torch.arange(3))
    torch.testing.assert_close(terms["label"], penalty * own)
    torch.testing.assert_close(method.scores(model, batch), classified(model, z))


def test_the_fields_of_leam_determine_its_modules(bert: Encoder) -> None:
    new_modules = LEAM(kernel=3, mlp_dropout=0.3).new_modules(bert, 300)
    attention = new_modules["attention"]
    assert isinstance(attention, WindowAttention)
    assert attention.conv.weight.shape == (300, 300, 3)
    shapes = [tuple(p.shape) for p in new_modules["mlp"].parameters()]
    assert shapes == [(16, 16), (16,), (300, 16), (300,)]
    rates = [layer.p for layer in new_modules["mlp"].children() if isinstance(layer, nn.Dropout)]
    assert rates == [0.3, 0.3]


def test_an_even_kernel_is_an_error(bert: Encoder) -> None:
    method = LEAM()
    assert method.check(bert) == ()
    with pytest.raises(SclsearchError, match=r"^kernel: must be odd.* 53 or 55\.$"):
        replace(method, kernel=54).check(bert)


def test_lsan_classifies_the_mean_of_the_vectors_of_a_text(made: Made, batch: Batch) -> None:
    method = LSAN()
    model = made(method)
    by_label = model.new_modules["attention"](model.hidden(batch), vectors_of(model), batch.mask)
    head = dict(model.new_modules["head"].named_parameters())
    logits = by_label.sum(1) / 3 @ head["out.weight"].T + head["out.bias"]
    torch.testing.assert_close(method.scores(model, batch), logits)
    terms = method.terms(model, batch)
    assert list(terms) == ["ce"]
    torch.testing.assert_close(terms["ce"], F.cross_entropy(logits, batch.y))


def test_the_head_of_lsan_has_the_dropout_rate_of_the_view(made: Made, batch: Batch) -> None:
    method = LSAN()
    model = made(method)
    model.encoder.eval()
    noisy = replace(batch, dropout_rates=(0.5,))
    assert torch.equal(method.scores(model, batch), method.scores(model, batch))
    assert not torch.equal(method.scores(model, noisy), method.scores(model, noisy))


def test_the_fields_of_lsan_determine_its_modules(bert: Encoder) -> None:
    new_modules = LSAN(attention_dim=5).new_modules(bert, 3)
    shapes = {name: tuple(p.shape) for name, p in new_modules["attention"].named_parameters()}
    assert shapes["first.weight"] == (5, 16)
    assert shapes["second.weight"] == (3, 5)
