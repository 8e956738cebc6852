"""SCL and CE+CL: weighted sums of cross-entropy and a contrast; a probe for SCL at λ = 1."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.encoders.heads import Head
from sclsearch.methods.base import Batch, Model, Pooling, Training, encoder_pooling
from sclsearch.methods.scl import CE, CECL, SCL
from sclsearch.objectives import nt_xent, sup_con
from tests.methods.conftest import Made

POOLINGS: tuple[Pooling, ...] = ("head_hidden", "cls_raw", "cls_pooled", "mean")
EACH_POOLING = pytest.mark.parametrize("pooling", POOLINGS)


def gradients(model: Model, terms: dict[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
    }


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
def test_scl_at_lam_1_has_a_probe_on_the_frozen_encoder(pooling: Pooling, frozen: str) -> None:
    training = Training(learning_rate=1e-5)
    contrast, probe = SCL(lam=1.0, pooling=pooling).stages(training)
    assert (contrast.training, contrast.frozen_pooling) == (training, None)
    assert probe.training == replace(training, learning_rate=1e-3)
    assert probe.frozen_pooling == frozen


def test_scl_at_lam_1_trains_the_head_only_in_the_probe(made: Made, batch: Batch) -> None:
    method = SCL(lam=1.0)
    contrast, probe = method.stages(Training())
    model = made(method)
    first = gradients(model, dict(contrast.terms(model, batch)))
    second = gradients(model, dict(probe.terms(model, replace(batch, features=torch.rand(8, 16)))))
    for name, gradient in first.items():
        assert not (name.startswith("new_modules") and gradient.any())
        assert name.startswith("new_modules") or not second[name].any()
    assert any(gradient.any() for gradient in first.values())
    assert any(gradient.any() for gradient in second.values())


@pytest.mark.parametrize("contrast_pooling", ["mean", "cls_raw", "cls_pooled"])
@EACH_POOLING
def test_ce_cl_contrasts_two_views_by_nt_xent(
    made: Made, batch: Batch, pooling: Pooling, contrast_pooling: Pooling
) -> None:
    method = CECL(tau=0.2, alpha=0.6, pooling=pooling, contrast_pooling=contrast_pooling)  # type: ignore[arg-type]
    model, views = made(method), replace(batch, dropout_rates=(0.3, 0.3))
    torch.manual_seed(4)
    _, z = model.embeddings(views, encoder_pooling(pooling), contrast_pooling)
    a, b = z.chunk(2)
    assert not torch.equal(a, b)
    torch.manual_seed(4)
    terms = method.terms(model, views)
    assert list(terms) == ["ce", "nt_xent"]
    torch.testing.assert_close(terms["nt_xent"], 0.6 * nt_xent(a, b, tau=0.2))


def test_ce_cl_averages_cross_entropy_over_both_views(made: Made, batch: Batch) -> None:
    method = CECL(pooling="cls_raw")
    model, views = made(method), replace(batch, dropout_rates=(0.3, 0.3))
    torch.manual_seed(4)
    pooled, _ = model.embeddings(views, "cls_raw", "mean")
    logits = model.new_modules["head"](pooled, 0.3).chunk(2)
    first, second = (F.cross_entropy(one, batch.y) for one in logits)
    assert first != second
    torch.manual_seed(4)
    torch.testing.assert_close(method.terms(model, views)["ce"], (first + second) / 2)


@EACH_POOLING
def test_ce_cl_without_contrast_and_dropout_is_cross_entropy(
    made: Made, batch: Batch, pooling: Pooling
) -> None:
    method, plain = CECL(alpha=0.0, pooling=pooling), CE(pooling=pooling)
    model = made(method)
    terms = method.terms(model, replace(batch, dropout_rates=(0.0, 0.0)))
    torch.testing.assert_close(terms["ce"], plain.terms(model, batch)["ce"])
    assert terms["nt_xent"] == 0
    torch.testing.assert_close(method.scores(model, batch), plain.scores(model, batch))
