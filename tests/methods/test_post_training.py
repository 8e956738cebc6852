"""Tests of TAPT against transformers and of CSSL against Eq. (7) of CMLM."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoConfig, BertForMaskedLM

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.cmlm import CMLM, CSSL, TAPT, corrupt, draw_selection
from sclsearch.methods.scl import CE
from tests.methods.conftest import Made


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_tapt_has_the_masked_lm_loss_of_transformers(
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
    seen = corrupt(encoder, batch.ids, selected)
    expected = theirs(
        input_ids=seen,
        attention_mask=batch.mask,
        token_type_ids=batch.types,
        labels=batch.ids.masked_fill(~selected, -100),
    ).loss
    model = Model(encoder, method.post_modules(encoder, 2)).train(training)
    torch.manual_seed(5)
    terms = method.post_terms(model, replace(batch, dropout_rates=(0.1,)))
    assert list(terms) == ["mlm"]
    torch.testing.assert_close(terms["mlm"], expected)


def test_a_new_masked_lm_head_is_noted(bert: Encoder) -> None:
    assert TAPT().check(bert) == ("masked-LM head: new, because the checkpoint of tiny has none",)


@pytest.mark.parametrize("pooling", ["cls_raw", "mean"])
@pytest.mark.parametrize("tau", [0.07, 0.5])
def test_cssl_contrasts_first_paraphrases_with_second_ones(
    made: Made, batch: Batch, pooling: Any, tau: float
) -> None:
    method = CSSL(tau=tau, contrast_pooling=pooling)
    post, _ = method.stages(Training())
    model = made(method, stage=0).eval()
    z = F.normalize(model.embed(batch, pooling), dim=1)
    logits = z[:4] @ z[4:].T / tau
    terms = post.terms(model, batch)
    assert list(terms) == ["sim_clr"]
    torch.testing.assert_close(terms["sim_clr"], F.cross_entropy(logits, torch.arange(4)))
    assert not torch.isclose(terms["sim_clr"], F.cross_entropy(logits.T, torch.arange(4)))


@pytest.mark.parametrize(
    ("kind", "reads"), [(TAPT, "texts"), (CSSL, "paraphrases"), (CMLM, "texts")]
)
def test_post_training_has_separate_settings_and_fine_tuning_is_cross_entropy(
    made: Made, batch: Batch, kind: Any, reads: str
) -> None:
    training = Training(dropout=0.2)
    method = kind(post_learning_rate=1e-4, post_batch_size=256, post_epochs=100, pooling="mean")
    post, tuning = method.stages(training)
    assert post.training == replace(training, learning_rate=1e-4, batch_size=256, epochs=100)
    assert (post.name, post.reads, post.labeled) == ("post-training", reads, False)
    assert (tuning.name, tuning.training) == ("fine-tuning", training)
    model, ce = made(method).eval(), CE(pooling="mean")
    assert tuning.terms(model, batch) == ce.terms(model, batch)
    assert torch.equal(method.scores(model, batch), ce.scores(model, batch))
