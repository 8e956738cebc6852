"""Tests of the probabilities of token selection and corruption."""

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.cmlm import corrupt, draw_selection

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
