"""Tests of LEAM and LSAN: loss terms, scores and modules."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import WindowAttention
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model
from sclsearch.methods.lacon import LEAM, LSAN, vectors_of
from tests.methods.conftest import Made


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


def test_the_mlp_of_leam_has_dropout_in_training_only(made: Made, batch: Batch) -> None:
    method = LEAM(mlp_dropout=0.5)
    model = made(method).eval()
    assert torch.equal(method.scores(model, batch), method.scores(model, batch))
    model.train()
    assert not torch.equal(method.scores(model, batch), method.scores(model, batch))


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
