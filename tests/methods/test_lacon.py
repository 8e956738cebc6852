"""Tests of LaCon, LaCon-fusion, LEAM and LSAN: their loss terms, scores and modules."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Method, Model
from sclsearch.methods.lacon import LEAM, LaCon, vectors_of
from tests.methods.conftest import Made

TEXTS = torch.tensor([[1, 2, 0, 1], [0, 1, 1, -1], [2, 0, 1, 1], [-1, 1, 2, 0]], dtype=torch.float)
LABELS = torch.tensor([[1, 1, 0, 1], [1, -1, 1, 0]], dtype=torch.float)
Y = torch.tensor([0, 1, 0, 1])
ICL, LCL, LER = {"icl": 1.696753}, {"lcl": 0.598715}, {"ler": 0.859141}
# Fields and the loss terms that they give for the tensors above, computed in float64.
EXPECTED_TERMS: tuple[tuple[dict[str, Any], dict[str, float]], ...] = (
    ({}, {**ICL, **LCL, **LER}),
    ({"lam": 0.0}, {**ICL, **LCL, "ler": 0.0}),
    ({"heads": 1}, {"icl": 0.542481, **LCL, **LER}),
    ({"icl": False}, {**LCL, **LER}),
    ({"lcl": False}, {**ICL, **LER}),
)


@pytest.mark.parametrize(("settings", "expected"), EXPECTED_TERMS, ids=str)
def test_the_fields_determine_the_loss_terms_and_tau_the_probabilities(
    bert: Encoder, batch: Batch, settings: dict[str, Any], expected: dict[str, float]
) -> None:
    method = replace(LaCon(tau=0.5, lam=0.5, heads=2), **settings)
    labels = nn.Embedding(2, 4, _weight=LABELS)
    model = Model(bert, nn.ModuleDict({"labels": labels, "g": nn.Sequential()}))
    fixed = replace(batch, y=Y, features=TEXTS)
    terms = {name: term.item() for name, term in method.terms(model, fixed).items()}
    assert terms == pytest.approx(expected, abs=2e-6)
    cosines = F.cosine_similarity(TEXTS[:, None], LABELS[None], dim=2)
    torch.testing.assert_close(method.scores(model, fixed), cosines)
    torch.testing.assert_close(method.probabilities(cosines), (cosines / 0.5).softmax(1))


@pytest.mark.parametrize("layers", [0, 3])
@pytest.mark.parametrize("pooling", ["cls_raw", "cls_pooled", "mean"])
def test_terms_and_scores_use_the_output_of_g(
    made: Made, batch: Batch, pooling: Any, layers: int
) -> None:
    method = LaCon(heads=4, pooling=pooling, g_layers=layers)
    model = made(method)
    z = model.embed(batch, pooling)
    h = model.new_modules["g"](z)
    assert torch.equal(h, z) == (layers == 0)
    cosines = F.normalize(h) @ F.normalize(vectors_of(model)).T
    torch.testing.assert_close(method.scores(model, batch), cosines)
    assert method.terms(model, batch) == method.terms(model, replace(batch, features=z))


def test_wrong_heads_even_kernels_and_a_missing_loss_are_errors(bert: Encoder) -> None:
    wrong: list[tuple[Method, str]] = [
        (LaCon(heads=6), "heads: must divide .* 16, got 6. Use one of 1, 2, 4, 8, 16"),
        (LaCon(heads=4, icl=False, lcl=False), "icl, lcl: both are false"),
        (LEAM(kernel=54), "kernel: must be odd.* 53 or 55"),
    ]
    for method, message in wrong:
        with pytest.raises(SclsearchError, match=f"^{message}"):
            method.check(bert)


def test_leam_classifies_texts_and_label_vectors_with_one_mlp(made: Made, batch: Batch) -> None:
    method = LEAM(label_penalty=0.5, mlp_dropout=0.3)
    model = made(method).eval()
    labels, mlp = vectors_of(model), model.new_modules["mlp"]
    first, second = (layer for layer in mlp.children() if isinstance(layer, nn.Linear))

    def classified(z: Tensor) -> Tensor:
        logits: Tensor = second(first(z).relu())
        return logits

    z = model.new_modules["attention"](model.hidden(batch), labels, batch.mask)
    terms = method.terms(model, batch)
    torch.testing.assert_close(terms["ce"], F.cross_entropy(classified(z), batch.y))
    own = F.cross_entropy(classified(labels), torch.arange(3))
    torch.testing.assert_close(terms["label"], 0.5 * own)
    torch.testing.assert_close(method.scores(model, batch), classified(z))
    assert [layer.p for layer in mlp.children() if isinstance(layer, nn.Dropout)] == [0.3, 0.3]
