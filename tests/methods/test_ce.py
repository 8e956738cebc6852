"""Cross-entropy fine-tuning is what transformers' own classifiers do."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BertForSequenceClassification, RobertaForSequenceClassification

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.head import Head
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.ce import CE, Pooling

POOLINGS: tuple[Pooling, ...] = ("head_hidden", "cls_raw", "cls_pooled", "mean")
MODES = pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])


@MODES
@pytest.mark.parametrize("classes", [0, 3])
def test_the_pooler_and_a_linear_layer_are_berts_classifier(
    tiny_bert: Path, bert: Encoder, batch: Batch, classes: int, training: bool
) -> None:
    theirs = BertForSequenceClassification.from_pretrained(tiny_bert, num_labels=max(classes, 1))
    method = CE(pooling="cls_pooled")
    head = Head(16, classes, hidden=False)
    head.out.load_state_dict(theirs.classifier.state_dict())
    bert.trims = False  # theirs draws noise for the whole last layer
    ours = Model(bert, torch.nn.ModuleDict({"head": head})).train(training)
    y = batch.y if classes else batch.y / 3
    torch.manual_seed(4)
    expected = theirs.train(training)(
        input_ids=batch.ids, attention_mask=batch.mask, token_type_ids=batch.types, labels=y
    ).loss
    torch.manual_seed(4)
    terms = method.terms(ours, replace(batch, y=y, rates=(0.1,)))
    assert list(terms) == ["ce"]
    torch.testing.assert_close(terms["ce"], expected)


@MODES
def test_the_hidden_head_is_robertas_classifier(
    tiny_roberta: Path, batch: Batch, training: bool
) -> None:
    theirs = RobertaForSequenceClassification.from_pretrained(tiny_roberta, num_labels=2)
    encoder = load_encoder(tiny_roberta, "roberta")
    encoder.trims = False  # theirs draws noise for the whole last layer
    new_modules = CE().new_modules(encoder, 2)
    head = new_modules["head"]
    assert isinstance(head, Head)
    assert head.dense is not None
    head.dense.load_state_dict(theirs.classifier.dense.state_dict())
    head.out.load_state_dict(theirs.classifier.out_proj.state_dict())
    ours = Model(encoder, new_modules).train(training)
    torch.manual_seed(4)
    expected = theirs.train(training)(input_ids=batch.ids, attention_mask=batch.mask).logits
    torch.manual_seed(4)
    torch.testing.assert_close(CE().scores(ours, replace(batch, rates=(0.1,))), expected)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_head_reads_the_pooling_of_its_name(
    bert: Encoder, batch: Batch, pooling: Pooling
) -> None:
    method = CE(pooling=pooling)
    new_modules = method.new_modules(bert, 2)
    head = new_modules["head"]
    assert isinstance(head, Head)
    assert (head.dense is not None) == (pooling == "head_hidden")
    model = Model(bert, new_modules).eval()
    z = model.embed(batch, "cls_raw" if pooling == "head_hidden" else pooling)
    torch.testing.assert_close(method.scores(model, batch), head(z, 0.0))


def test_there_is_one_stage_with_the_training_as_given(bert: Encoder) -> None:
    training = Training(dropout=0.2, epochs=3)
    (stage,) = CE().stages(training)
    assert stage.training is training
    assert stage.rates_at(0) == (0.2,)
    assert stage.frozen_pooling is None


def test_a_pooler_that_is_not_there_is_refused(tiny_roberta: Path) -> None:
    encoder = load_encoder(tiny_roberta, "roberta")
    CE().check(encoder)
    with pytest.raises(SclsearchError, match=r"^pooling: 'cls_pooled' needs a pretrained pooler"):
        CE(pooling="cls_pooled").check(encoder)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_g_stands_between_embedding_and_head_if_it_is_asked_for(
    bert: Encoder, batch: Batch, pooling: Pooling
) -> None:
    method = CE(pooling=pooling, projection="g")
    new_modules = method.new_modules(bert, 2)
    assert list(CE(pooling=pooling).new_modules(bert, 2)) == ["head"]
    assert [tuple(p.shape) for p in new_modules["g"].parameters()] == [(16, 16), (16,)] * 3
    model = Model(bert, new_modules).eval()
    z = new_modules["g"](model.embed(batch, "cls_raw" if pooling == "head_hidden" else pooling))
    torch.testing.assert_close(method.scores(model, batch), new_modules["head"](z, 0.0))
