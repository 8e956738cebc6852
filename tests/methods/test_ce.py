"""Tests of cross-entropy fine-tuning against the classifiers of transformers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BertForSequenceClassification, RobertaForSequenceClassification

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.methods.base import Batch, Model, Pooling
from sclsearch.methods.scl import CE
from tests.methods.conftest import POOLINGS, Made

MODES = pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])


@MODES
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


@MODES
def test_head_hidden_equals_the_classifier_of_roberta(
    tiny_roberta: Path, roberta: Encoder, batch: Batch, training: bool
) -> None:
    theirs = RobertaForSequenceClassification.from_pretrained(tiny_roberta, num_labels=2)
    roberta.can_trim = False  # transformers draws dropout for the whole last layer
    ours = Model(roberta, CE().new_modules(roberta, 2)).train(training)
    head = "new_modules.head"
    ours.get_submodule(f"{head}.dense").load_state_dict(theirs.classifier.dense.state_dict())
    ours.get_submodule(f"{head}.out").load_state_dict(theirs.classifier.out_proj.state_dict())
    torch.manual_seed(4)
    expected = theirs.train(training)(input_ids=batch.ids, attention_mask=batch.mask).logits
    torch.manual_seed(4)
    torch.testing.assert_close(CE().scores(ours, replace(batch, dropout_rates=(0.1,))), expected)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_head_reads_the_pooling_or_the_output_of_g(
    made: Made, batch: Batch, pooling: Pooling
) -> None:
    plain, projected = CE(pooling=pooling), CE(pooling=pooling, projection="g")
    model = made(projected).eval()
    head, g = model.new_modules["head"], model.new_modules["g"]
    assert isinstance(head, Head)
    assert (head.dense is not None) == (pooling == "head_hidden")
    assert list(made(plain).new_modules) == ["head"]
    assert [tuple(p.shape) for p in g.parameters()] == [(16, 16), (16,)] * 3
    z = model.embed(batch, "cls_raw" if pooling == "head_hidden" else pooling)
    torch.testing.assert_close(plain.scores(model, batch), head(z, 0.0))
    torch.testing.assert_close(projected.scores(model, batch), head(g(z), 0.0))
