"""LSAN classifies the mean of a text's vectors, one a label, by softmax."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from sclsearch.methods.lsan import LSAN

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.lacon import vectors_of


def made(method: LSAN, encoder: Encoder) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, 3)).train()


def test_the_mean_of_a_texts_vectors_is_classified(bert: Encoder, batch: Batch) -> None:
    method = LSAN()
    model = made(method, bert)
    by_label = model.new_modules["attention"](model.hidden(batch), vectors_of(model), batch.mask)
    head = dict(model.new_modules["head"].named_parameters())
    logits = by_label.sum(1) / 3 @ head["out.weight"].T + head["out.bias"]
    torch.testing.assert_close(method.scores(model, batch), logits)
    terms = method.terms(model, batch)
    assert list(terms) == ["ce"]
    torch.testing.assert_close(terms["ce"], F.cross_entropy(logits, batch.y))


def test_the_head_drops_at_the_rate_of_the_view(bert: Encoder, batch: Batch) -> None:
    method = LSAN()
    model = made(method, bert)
    model.encoder.eval()
    noisy = replace(batch, rates=(0.5,))
    assert torch.equal(method.scores(model, batch), method.scores(model, batch))
    assert not torch.equal(method.scores(model, noisy), method.scores(model, noisy))


def test_the_fields_make_the_parts(bert: Encoder) -> None:
    new_modules = LSAN(attention_dim=5, label_init_std=0.5).new_modules(bert, 3)
    shapes = {name: tuple(p.shape) for name, p in new_modules["attention"].named_parameters()}
    assert shapes["first.weight"] == (5, 16)
    assert shapes["second.weight"] == (3, 5)
    assert new_modules["labels"].weight.abs().max() > 0.25  # type: ignore[operator]


def test_label_vectors_learn(bert: Encoder, batch: Batch) -> None:
    method = LSAN()
    model = made(method, bert)
    method.terms(model, batch)["ce"].backward()  # type: ignore[no-untyped-call]
    gradient = vectors_of(model).grad
    assert gradient is not None
    assert gradient.any(1).all()


def test_there_is_one_stage_and_label_vectors_have_their_own_rate(bert: Encoder) -> None:
    training = Training(dropout=0.2)
    method = LSAN(label_lr_mult=10.0)
    (stage,) = method.stages(training)
    assert (stage.training, stage.frozen_pooling) == (training, None)
    assert (stage.lr_scales, stage.no_weight_decay) == ({"labels": 10.0}, ("labels",))
    assert method.check(bert) == ()
