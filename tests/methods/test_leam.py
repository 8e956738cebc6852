"""LEAM is cross-entropy of attended texts, and of the label vectors by the same classifier."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from sclsearch.methods.leam import LEAM
from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.label_attention import WindowAttention
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.lacon import vectors_of


def made(method: LEAM, encoder: Encoder) -> Model:
    torch.manual_seed(0)
    return Model(encoder, method.new_modules(encoder, 3)).eval()


def classified(model: Model, z: Tensor) -> Tensor:
    """Returns the logits of embeddings `[N, d]` without dropout."""
    first, second = (
        layer for layer in model.new_modules["mlp"].children() if hasattr(layer, "weight")
    )
    logits: Tensor = second(first(z).relu())
    return logits


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0])
def test_texts_and_label_vectors_go_through_one_classifier(
    bert: Encoder, batch: Batch, penalty: float
) -> None:
    method = LEAM(label_penalty=penalty)
    model = made(method, bert)
    labels = vectors_of(model)
    attention = model.new_modules["attention"]
    z = attention(model.hidden(batch), labels, batch.mask, batch.mask)
    terms = method.terms(model, batch)
    assert list(terms) == ["ce", "label"]
    torch.testing.assert_close(terms["ce"], F.cross_entropy(classified(model, z), batch.y))
    own = F.cross_entropy(classified(model, labels), torch.arange(3))
    torch.testing.assert_close(terms["label"], penalty * own)
    torch.testing.assert_close(method.scores(model, batch), classified(model, z))


def test_the_fields_make_the_parts(bert: Encoder) -> None:
    method = LEAM(kernel=3, conv="shared", mlp_width=5, mlp_dropout=0.3, label_init_std=0.5)
    new_modules = method.new_modules(bert, 300)
    attention = new_modules["attention"]
    assert isinstance(attention, WindowAttention)
    assert (attention.channels, attention.conv.kernel_size, attention.relu) == (1, (3,), True)
    shapes = [tuple(p.shape) for p in new_modules["mlp"].parameters()]
    assert shapes == [(5, 16), (5,), (300, 5), (300,)]
    rates = [layer.p for layer in new_modules["mlp"].children() if isinstance(layer, nn.Dropout)]
    assert rates == [0.3, 0.3]
    (weight,) = new_modules["labels"].parameters()
    assert weight.std().item() == pytest.approx(0.5, rel=0.05)


def test_the_classifiers_hidden_layer_is_as_wide_as_the_encoder_if_not_told_otherwise(
    bert: Encoder,
) -> None:
    assert next(LEAM().new_modules(bert, 2)["mlp"].parameters()).shape == (16, 16)


def test_the_classifier_drops_in_training_alone(bert: Encoder, batch: Batch) -> None:
    method = LEAM(mlp_dropout=0.5)
    model = made(method, bert)
    assert torch.equal(method.scores(model, batch), method.scores(model, batch))
    model.train()
    assert not torch.equal(method.scores(model, batch), method.scores(model, batch))


def test_there_is_one_stage_and_label_vectors_have_their_own_rate() -> None:
    training = Training(dropout=0.2)
    (stage,) = LEAM(label_lr_mult=10.0).stages(training)
    assert (stage.training, stage.frozen_pooling) == (training, None)
    assert (stage.lr_scales, stage.no_weight_decay) == ({"labels": 10.0}, ("labels",))


def test_an_even_window_is_refused(bert: Encoder) -> None:
    method = LEAM()
    assert method.check(bert) == ()
    with pytest.raises(SclsearchError, match=r"^kernel: must be odd.* 53 or 55\.$"):
        replace(method, kernel=54).check(bert)
