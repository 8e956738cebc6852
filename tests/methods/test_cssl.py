"""CSSL's post-training contrasts two paraphrases of each text, Eq. (7) of CMLM."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sclsearch.methods.cssl import CSSL

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.ce import CE


@pytest.mark.parametrize("pooling", ["cls_raw", "mean"])
@pytest.mark.parametrize("tau", [0.07, 0.5])
def test_the_first_paraphrase_chooses_its_own_among_the_second_ones(
    bert: Encoder, batch: Batch, pooling: Any, tau: float
) -> None:
    method = CSSL(tau=tau, contrast_pooling=pooling)
    post, _ = method.stages(Training())
    model = Model(bert, post.new_modules(bert, 2)).eval()
    z = F.normalize(model.embed(batch, pooling), dim=1)
    logits = z[:4] @ z[4:].T / tau
    terms = post.terms(model, batch)
    assert list(terms) == ["sim_clr"]
    torch.testing.assert_close(terms["sim_clr"], F.cross_entropy(logits, torch.arange(4)))
    assert not torch.isclose(terms["sim_clr"], F.cross_entropy(logits.T, torch.arange(4)))


def test_post_training_reads_paraphrases_and_fine_tuning_is_cross_entropy(
    bert: Encoder, batch: Batch
) -> None:
    training = Training(batch_sampling="balanced")
    method = CSSL(post_learning_rate=3e-5, post_batch_size=4, post_epochs=50, pooling="mean")
    post, tuning = method.stages(training)
    assert (post.name, post.reads, post.monitored) == ("post-training", "paraphrases", ())
    assert post.training == replace(
        training, learning_rate=3e-5, batch_size=4, epochs=50, batch_sampling="shuffle"
    )
    assert not list(post.new_modules(bert, 2).parameters())
    assert (tuning.name, tuning.training) == ("fine-tuning", training)
    model = Model(bert, tuning.new_modules(bert, 2)).eval()
    assert tuning.terms(model, batch) == CE(pooling="mean").terms(model, batch)


def test_one_text_alone_costs_nothing(bert: Encoder, batch: Batch) -> None:
    method = CSSL()
    model = Model(bert, method.stages(Training())[0].new_modules(bert, 2)).train()
    cut = {name: getattr(batch, name)[:2] for name in ("ids", "mask", "types", "content", "y")}
    loss = method.terms(model, replace(batch, **cut))["sim_clr"]
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_it_needs_neither_mask_token_nor_masked_lm_head(bert: Encoder) -> None:
    bert.mask_token = None
    assert CSSL().check(bert) == ()


def test_a_pooler_that_is_not_there_is_refused(tiny_roberta: Path) -> None:
    encoder = load_encoder(tiny_roberta, "roberta")
    CSSL().check(encoder)
    with pytest.raises(SclsearchError, match=r"^pooling: 'cls_pooled' needs a pretrained pooler"):
        CSSL(pooling="cls_pooled").check(encoder)


def test_the_settings_are_those_of_cmlms_comparison() -> None:
    assert CSSL.training == {"warmup_ratio": 0.0, "weight_decay": 0.0, "max_grad_norm": 1.0}
