"""SCL is (1 - λ) of cross-entropy and λ of supervised contrast, and at λ = 1 a probe."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import Head
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.ce import CE, Pooling
from sclsearch.methods.scl import SCL
from sclsearch.objectives import sup_con
from sclsearch.objectives.sup_con import Reduction

POOLINGS: tuple[Pooling, ...] = ("head_hidden", "cls_raw", "cls_pooled", "mean")
EACH_POOLING = pytest.mark.parametrize("pooling", POOLINGS)
EACH_FEATURES = pytest.mark.parametrize("features", POOLINGS)


def made(method: SCL | CE, encoder: Encoder) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, 3)).train()


def gradients(model: Model, terms: dict[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
    }


@EACH_POOLING
def test_without_contrast_the_gradient_is_that_of_cross_entropy(
    bert: Encoder, batch: Batch, pooling: Pooling
) -> None:
    ce, scl = CE(pooling=pooling), SCL(pooling=pooling, lam=0.0)
    model, noisy = made(ce, bert), replace(batch, rates=(0.1,))
    torch.manual_seed(4)
    expected = gradients(model, dict(ce.terms(model, noisy)))
    torch.manual_seed(4)
    found = gradients(model, dict(scl.terms(model, noisy)))
    assert any(gradient.any() for gradient in found.values())
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("lam", [0.0, 0.3, 0.9, 1.0])
def test_terms_are_weighted_by_lam(bert: Encoder, batch: Batch, lam: float) -> None:
    model = made(SCL(), bert)
    terms = SCL(lam=lam, tau=0.5).terms(model, batch)
    contrast = sup_con(model.embed(batch, "cls_raw"), batch.y, tau=0.5)
    torch.testing.assert_close(terms["ce"], (1 - lam) * CE().terms(model, batch)["ce"])
    torch.testing.assert_close(terms["scl"], lam * contrast)
    assert len(terms) == 2


@pytest.mark.parametrize("reduction", ["mean_valid", "mean_all", "sum"])
def test_the_reduction_is_passed_on(bert: Encoder, batch: Batch, reduction: Reduction) -> None:
    lonely = replace(batch, y=torch.tensor([0, 0, 0, 1, 1, 1, 1, 2]))
    method = SCL(lam=1.0, scl_reduction=reduction)
    model = made(method, bert)
    z = model.embed(lonely, "cls_raw")
    expected = sup_con(z, lonely.y, tau=method.tau, reduction=reduction)
    torch.testing.assert_close(method.terms(model, lonely)["scl"], expected)


@EACH_FEATURES
@EACH_POOLING
def test_what_is_contrasted_and_what_is_classified_are_chosen_apart(
    bert: Encoder, batch: Batch, pooling: Pooling, features: Pooling
) -> None:
    method = SCL(pooling=pooling, scl_features=features, lam=0.5)
    method.check(bert)
    model = made(method, bert)
    head = model.new_modules["head"]
    assert isinstance(head, Head)
    assert (head.dense is not None) == ("head_hidden" in {pooling, features})
    read = model.embed(batch, "cls_raw" if pooling == "head_hidden" else pooling)
    z = head.features(read, 0.0) if features == "head_hidden" else model.embed(batch, features)
    terms = method.terms(model, batch)
    torch.testing.assert_close(terms["scl"], 0.5 * sup_con(z, batch.y, tau=method.tau))
    torch.testing.assert_close(method.scores(model, batch), head(read, 0.0))


@EACH_FEATURES
@EACH_POOLING
def test_the_scores_are_those_that_the_loss_has_seen(
    bert: Encoder, batch: Batch, pooling: Pooling, features: Pooling
) -> None:
    method = SCL(pooling=pooling, scl_features=features, lam=0.0)
    model = made(method, bert)
    expected = torch.nn.functional.cross_entropy(method.scores(model, batch), batch.y)
    torch.testing.assert_close(method.terms(model, batch)["ce"], expected)


def test_below_one_there_is_one_stage() -> None:
    training = Training(dropout=0.2)
    (stage,) = SCL(lam=0.99).stages(training)
    assert (stage.name, stage.training, stage.rates_at(5)) == ("contrast", training, (0.2,))
    assert stage.frozen_pooling is None


@pytest.mark.parametrize(("pooling", "frozen"), [("head_hidden", "cls_raw"), ("mean", "mean")])
def test_at_one_the_head_is_fitted_to_the_frozen_encoder(pooling: Pooling, frozen: str) -> None:
    training = Training(learning_rate=1e-5)
    contrast, probe = SCL(lam=1.0, pooling=pooling).stages(training)
    assert (contrast.training, contrast.frozen_pooling) == (training, None)
    assert probe.training == replace(training, learning_rate=1e-3)
    assert (probe.frozen_pooling, probe.cached) == (frozen, True)


def test_at_one_the_head_learns_in_the_probe_alone(bert: Encoder, batch: Batch) -> None:
    method = SCL(lam=1.0)
    contrast, probe = method.stages(Training())
    model = made(method, bert)
    first = gradients(model, dict(contrast.terms(model, batch)))
    second = gradients(model, dict(probe.terms(model, replace(batch, features=torch.rand(8, 16)))))
    for name, gradient in first.items():
        assert not (name.startswith("new_modules") and gradient.any())
        assert name.startswith("new_modules") or not second[name].any()
    assert any(gradient.any() for gradient in first.values())
    assert any(gradient.any() for gradient in second.values())


@pytest.mark.parametrize(
    ("method", "field"),
    [(SCL(pooling="cls_pooled"), "pooling"), (SCL(scl_features="cls_pooled"), "scl_features")],
    ids=["pooling", "scl_features"],
)
def test_a_pooler_that_is_not_there_is_refused_under_the_name_of_the_field(
    tiny_roberta: Path, method: SCL, field: str
) -> None:
    encoder = load_encoder(tiny_roberta, "roberta")
    SCL().check(encoder)
    with pytest.raises(SclsearchError, match=f"^{field}: 'cls_pooled' needs a pretrained pooler"):
        method.check(encoder)
