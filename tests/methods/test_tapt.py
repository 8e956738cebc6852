"""TAPT's post-training is masked language modelling as transformers does it."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from sclsearch.methods.tapt import TAPT
from transformers import AutoConfig, BertForMaskedLM

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.ce import CE
from sclsearch.methods.cmlm import CMLM
from sclsearch.methods.masking import corrupt, draw_selection


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_the_loss_is_that_of_transformers_on_the_same_masks(
    tiny_bert: Path, tmp_path: Path, batch: Batch, training: bool
) -> None:
    folder = copytree(tiny_bert, tmp_path / "bert")
    torch.manual_seed(3)
    BertForMaskedLM(AutoConfig.from_pretrained(tiny_bert)).save_pretrained(folder)
    theirs = BertForMaskedLM.from_pretrained(folder).train(training)
    encoder = load_encoder(folder, "mine")
    method = TAPT(p_m=0.4)
    assert method.check(encoder) == ()
    torch.manual_seed(5)
    selected = draw_selection(batch.content, 0.4)
    seen = corrupt(batch.ids, selected, mask_token=4, vocabulary=len(encoder.embeddings))
    expected = theirs(
        input_ids=seen,
        attention_mask=batch.mask,
        token_type_ids=batch.types,
        labels=batch.ids.masked_fill(~selected, -100),
    ).loss
    model = Model(encoder, method.new_modules(encoder, 2)).train(training)
    torch.manual_seed(5)
    terms = method.terms(model, replace(batch, rates=(0.1,)))
    assert list(terms) == ["mlm"]
    torch.testing.assert_close(terms["mlm"], expected)


@pytest.mark.parametrize("reduction", ["tokens", "sequences"])
def test_a_batch_without_any_selected_token_costs_nothing(
    bert: Encoder, batch: Batch, reduction: Any
) -> None:
    method = TAPT(mlm_reduction=reduction)
    model = Model(bert, method.new_modules(bert, 2)).train()
    bare = replace(batch, content=torch.zeros_like(batch.content))
    loss = method.terms(model, bare)["mlm"]
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss == 0
    assert not any(p.grad is not None and p.grad.any() for p in model.parameters())


def test_post_training_has_its_own_settings_and_fine_tuning_is_cross_entropy(
    bert: Encoder, batch: Batch
) -> None:
    training = Training(batch_sampling="balanced")
    method = TAPT(post_learning_rate=1e-4, post_batch_size=256, post_epochs=100, pooling="mean")
    post, tuning = method.stages(training)
    assert post.training == replace(
        training, learning_rate=1e-4, batch_size=256, epochs=100, batch_sampling="shuffle"
    )
    assert (tuning.name, tuning.training) == ("fine-tuning", training)
    model = Model(bert, tuning.new_modules(bert, 2)).eval()
    assert tuning.terms(model, batch) == CE(pooling="mean").terms(model, batch)


def test_a_fresh_head_is_noted(bert: Encoder) -> None:
    assert TAPT().check(bert) == ("masked-LM head: new, because the checkpoint of tiny has none",)


def test_an_encoder_that_it_cannot_use_is_refused(tiny_roberta: Path) -> None:
    encoder = load_encoder(tiny_roberta, "roberta")
    with pytest.raises(SclsearchError, match=r"^pooling: 'cls_pooled' needs a pretrained pooler"):
        TAPT(pooling="cls_pooled").check(encoder)
    encoder.mask_token = None
    with pytest.raises(SclsearchError, match=r"^p_m: the tokenizer of .* has no mask token"):
        TAPT().check(encoder)


def test_the_schedule_is_that_of_cmlm() -> None:
    names = ("p_m", "post_learning_rate", "post_batch_size", "post_epochs")
    assert [getattr(TAPT(), name) for name in names] == [getattr(CMLM(), name) for name in names]
    assert TAPT.training == CMLM.training
