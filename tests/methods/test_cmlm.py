"""Tests of CMLM, TAPT and CSSL: masks, stages and loss terms."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig, BertForMaskedLM

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.cmlm import CMLM, CSSL, TAPT, corrupt, draw_selection
from sclsearch.methods.scl import CE
from sclsearch.objectives import sim_clr, sim_siam
from sclsearch.objectives.contrastive import feature_spread
from tests.methods.conftest import Made

TEXTS, TOKENS = 400, 60
MASK, VOCABULARY = 4, 50


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        yield


@pytest.fixture
def maskable() -> Tensor:
    """Return texts of 3 to 60 tokens whose first and last token are special."""
    lengths = 3 + torch.arange(TEXTS)[:, None] % (TOKENS - 2)
    places = torch.arange(TOKENS)
    return (places > 0) & (places < lengths - 1)


def encoder(mask_token: int, vocabulary: int) -> Encoder:
    """Return the part of an encoder that `corrupt` reads."""
    parts: Any = SimpleNamespace(mask_token=mask_token, embeddings=range(vocabulary))
    return cast("Encoder", parts)


def near(count: int, trials: int, p: float) -> bool:
    """Return whether a count is within five standard deviations of its binomial's mean."""
    return abs(count - trials * p) <= 5 * math.sqrt(trials * p * (1 - p))


@pytest.mark.parametrize(("p_m", "p_c"), [(0.15, 0.7), (0.5, 0.3), (0.15, 1.0)])
def test_selection_and_complement_have_the_probabilities_of_the_paper(
    maskable: Tensor, p_m: float, p_c: float
) -> None:
    selected = draw_selection(maskable, p_m)
    complement = draw_selection(maskable & ~selected, p_c)
    trials = int(maskable.sum())
    assert near(int(selected.sum()), trials, p_m)
    assert near(int(complement.sum()), trials, p_c * (1 - p_m))
    assert near(int(complement.sum()), trials - int(selected.sum()), p_c)


def test_probabilities_0_and_1_select_nothing_and_all(maskable: Tensor) -> None:
    assert not draw_selection(maskable, 0.0).any()
    assert torch.equal(draw_selection(maskable, 1.0), maskable)


def test_all_positions_have_the_same_probability(maskable: Tensor) -> None:
    drawn = draw_selection(torch.ones(4000, 5, dtype=torch.bool), 0.3).sum(0)
    assert all(near(int(count), 4000, 0.3) for count in drawn)


def test_corruption_masks_80_percent_replaces_10_and_keeps_10(maskable: Tensor) -> None:
    kept, tokens = 8, 8
    ids = torch.full(maskable.shape, kept)  # an id that is never drawn
    found = corrupt(encoder(-1, tokens), ids, maskable)[maskable]
    replaced = found[(found >= 0) & (found < tokens)]
    assert near(int((found == -1).sum()), len(found), 0.8)
    assert near(len(replaced), len(found), 0.1)
    assert near(int((found == kept).sum()), len(found), 0.1)
    counts = replaced.bincount(minlength=tokens)
    assert len(replaced) > 1000
    assert all(near(int(count), len(replaced), 1 / tokens) for count in counts)


def test_unselected_tokens_are_unchanged(maskable: Tensor) -> None:
    ids = torch.randint(5, VOCABULARY, maskable.shape)
    given = ids.clone()
    selected = draw_selection(maskable, 0.5)
    found = corrupt(encoder(MASK, VOCABULARY), ids, selected)
    assert torch.equal(found[~selected], ids[~selected])
    assert torch.equal(ids, given)


def test_random_numbers_do_not_depend_on_the_mask(maskable: Tensor) -> None:
    state = torch.get_rng_state()
    whole = draw_selection(torch.ones_like(maskable), 0.3)
    torch.set_rng_state(state)
    assert torch.equal(draw_selection(maskable, 0.3), whole & maskable)


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


Draw = Callable[[Tensor, Tensor], Tensor]


def complement(content: Tensor, first: Tensor) -> Tensor:
    return draw_selection(content & ~first, 0.7)


def drawn(
    encoder: Encoder, batch: Batch, method: CMLM, further: Draw
) -> tuple[Tensor, list[Tensor]]:
    """Return the selection of the first view, and the tokens of all views, from seed 5."""
    torch.manual_seed(5)
    selected = draw_selection(batch.content, method.p_m)
    hide = partial(corrupt, encoder, batch.ids)
    others = [hide(further(batch.content, selected)) for _ in range(method.k)]
    return selected, [hide(selected), *others]


def states_of(model: Model, batch: Batch, views: list[Tensor]) -> list[Tensor]:
    return [model.hidden(replace(batch, ids=ids)) for ids in views]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("contrast", ["simsiam", "simclr"])
def test_the_terms_equal_those_of_separately_encoded_views(
    made: Made, bert: Encoder, batch: Batch, k: int, contrast: Any
) -> None:
    method = CMLM(alpha=0.3, k=k, contrast=contrast, p_m=0.3, tau=0.2)
    model = made(method, stage=0).eval()
    selected, views = drawn(model.encoder, batch, method, complement)
    torch.manual_seed(5)
    terms = method.post_terms(model, batch)
    h = torch.stack([states[:, 0] for states in states_of(model, batch, views)])
    if contrast == "simclr":
        expected = sim_clr(h[0], h[1:], tau=0.2)
    else:
        first, last = model.new_modules["predictor"].parameters()
        z = F.gelu(h @ first.T) @ last.T
        expected = sim_siam(z[0], z[1:], h[0], h[1:])
    torch.testing.assert_close(terms["contrast"], 0.3 * expected)
    torch.testing.assert_close(terms["feature_spread"], feature_spread(h[0]))
    scores = model.new_modules["mlm"](states_of(model, batch, views)[0], bert.embeddings)
    costs = F.cross_entropy(scores[selected], batch.ids[selected])
    torch.testing.assert_close(terms["mlm"], costs)
    assert set(terms) == {"contrast", "feature_spread", "mlm"}


def test_with_drm_masking_views_are_masked_independently(made: Made, batch: Batch) -> None:
    method = CMLM(masking="drm", p_m=0.2, p_c=0.9, contrast="simclr")
    model = made(method, stage=0).eval()
    _, views = drawn(model.encoder, batch, method, lambda content, _: draw_selection(content, 0.2))
    torch.manual_seed(5)
    found = method.post_terms(model, batch)["contrast"]
    first, second = (states[:, 0] for states in states_of(model, batch, views))
    torch.testing.assert_close(found, 0.5 * sim_clr(first, second[None], tau=0.1))


def test_the_mean_over_tokens_can_be_contrasted(made: Made, batch: Batch) -> None:
    method = CMLM(contrast="simclr", contrast_pooling="mean")
    model = made(method, stage=0).eval()
    _, views = drawn(model.encoder, batch, method, complement)
    torch.manual_seed(5)
    found = method.post_terms(model, batch)["contrast"]
    first, second = (
        model.encoder.pool(states, batch.mask, "mean") for states in states_of(model, batch, views)
    )
    torch.testing.assert_close(found, 0.5 * sim_clr(first, second[None], tau=0.1))


def test_a_batch_without_selected_tokens_has_a_finite_loss(made: Made, batch: Batch) -> None:
    method = CMLM()
    model = made(method, stage=0)
    unselectable = replace(batch, content=torch.zeros_like(batch.content))
    (stage, _) = method.stages(Training())
    terms = stage.terms(model, unselectable)
    stage.loss(terms).backward()  # type: ignore[no-untyped-call]
    assert terms["mlm"] == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_the_monitored_term_has_no_gradient_and_is_not_in_the_loss(
    made: Made, batch: Batch
) -> None:
    post, _ = CMLM().stages(Training())
    torch.manual_seed(5)
    terms = post.terms(made(CMLM(), stage=0).eval(), batch)
    assert not terms["feature_spread"].requires_grad
    torch.testing.assert_close(post.loss(terms), terms["contrast"] + terms["mlm"])


def test_a_new_masked_lm_head_is_noted_if_it_is_used(bert: Encoder) -> None:
    assert CMLM().check(bert) == ("masked-LM head: new, because the checkpoint of tiny has none",)
    assert CMLM(mlm=False).check(bert) == ()
