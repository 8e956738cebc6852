"""Tests of CMLM, TAPT and CSSL: masks, stages and loss terms."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig, BertForMaskedLM

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.cmlm import CMLM, CSSL, TAPT, corrupt, draw_selection
from sclsearch.objectives import sim_clr, sim_siam
from sclsearch.objectives.contrastive import feature_spread
from tests.methods.conftest import Made


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        yield


@pytest.fixture
def maskable() -> Tensor:
    """Return texts of 3 to 60 tokens whose first and last token are special."""
    lengths = 3 + torch.arange(400)[:, None] % 58
    places = torch.arange(60)
    return (places > 0) & (places < lengths - 1)


def near(count: int, trials: int, p: float) -> bool:
    """Return whether a count is within five standard deviations of its binomial's mean."""
    return abs(count - trials * p) <= 5 * math.sqrt(trials * p * (1 - p))


@pytest.mark.parametrize(("p_m", "p_c"), [(0.15, 0.7), (0.5, 0.3), (0.15, 1.0)])
def test_selection_and_complement_have_the_probabilities_of_the_paper(
    maskable: Tensor, p_m: float, p_c: float
) -> None:
    state = torch.get_rng_state()
    selected = draw_selection(maskable, p_m)
    left = maskable & ~selected
    complement = draw_selection(left, p_c)
    assert near(int(selected.sum()), int(maskable.sum()), p_m)
    assert near(int(complement.sum()), int(left.sum()), p_c)
    assert not (complement & ~left).any()
    torch.set_rng_state(state)  # each token has one random number, whatever the mask is
    whole = draw_selection(torch.ones_like(maskable), p_m)
    assert torch.equal(selected, whole & maskable)


def test_corruption_masks_80_percent_of_the_selected_tokens_and_replaces_10(
    maskable: Tensor,
) -> None:
    kept, tokens = 8, 8
    encoder: Any = SimpleNamespace(mask_token=-1, embeddings=range(tokens))
    ids = torch.full(maskable.shape, kept)  # an id that is never drawn
    found = corrupt(encoder, ids, maskable)
    assert (ids == kept).all()
    assert (found[~maskable] == kept).all()
    found = found[maskable]
    replaced = found[(found >= 0) & (found < tokens)]
    assert near(int((found == -1).sum()), len(found), 0.8)
    assert near(len(replaced), len(found), 0.1)
    counts = replaced.bincount(minlength=tokens)
    assert all(near(int(count), len(replaced), 1 / tokens) for count in counts)


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
    expected = theirs(
        input_ids=corrupt(encoder, batch.ids, selected),
        attention_mask=batch.mask,
        token_type_ids=batch.types,
        labels=batch.ids.masked_fill(~selected, -100),
    ).loss
    model = Model(encoder, method.post_modules(encoder, 2)).train(training)
    torch.manual_seed(5)
    terms = method.post_terms(model, replace(batch, dropout_rates=(0.1,)))
    assert list(terms) == ["mlm"]
    torch.testing.assert_close(terms["mlm"], expected)


@pytest.mark.parametrize("pooling", ["cls_raw", "mean"])
def test_cssl_contrasts_first_paraphrases_with_second_ones(
    made: Made, batch: Batch, pooling: Any
) -> None:
    method = CSSL(tau=0.5, contrast_pooling=pooling)
    model = made(method, stage=0).eval()
    first, second = model.embed(batch, pooling).chunk(2)
    terms = method.stages(Training())[0].terms(model, batch)
    assert list(terms) == ["sim_clr"]
    torch.testing.assert_close(terms["sim_clr"], sim_clr(first, second[None], tau=0.5))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"k": 3},
        {"k": 3, "contrast": "simclr", "contrast_pooling": "mean", "tau": 0.2},
        {"masking": "drm", "p_c": 0.9, "contrast": "simclr"},
    ],
    ids=str,
)
def test_the_terms_of_cmlm_equal_those_of_separately_encoded_views(
    made: Made, bert: Encoder, batch: Batch, settings: dict[str, Any]
) -> None:
    method = CMLM(alpha=0.3, p_m=0.3, **settings)
    post, _ = method.stages(Training())
    model = made(method, stage=0).eval()
    torch.manual_seed(5)
    selected = draw_selection(batch.content, 0.3)
    left, p = (batch.content, 0.3) if method.masking == "drm" else (batch.content & ~selected, 0.7)
    views = [corrupt(bert, batch.ids, draw_selection(left, p)) for _ in range(method.k)]
    views.insert(0, corrupt(bert, batch.ids, selected))
    torch.manual_seed(5)
    terms = post.terms(model, batch)
    states = [model.hidden(replace(batch, ids=ids)) for ids in views]
    h = torch.stack([bert.pool(view, batch.mask, method.contrast_pooling) for view in states])
    if method.contrast == "simclr":
        expected = sim_clr(h[0], h[1:], tau=method.tau)
    else:
        first, last = model.new_modules["predictor"].parameters()
        z = F.gelu(h @ first.T) @ last.T
        expected = sim_siam(z[0], z[1:], h[0], h[1:])
    torch.testing.assert_close(terms["contrast"], 0.3 * expected)
    torch.testing.assert_close(terms["feature_spread"], feature_spread(h[0]))
    scores = model.new_modules["mlm"](states[0], bert.embeddings)
    costs = F.cross_entropy(scores[selected], batch.ids[selected])
    torch.testing.assert_close(terms["mlm"], costs)
    torch.testing.assert_close(post.loss(terms), terms["contrast"] + terms["mlm"])
