"""The last layer at position 0 alone gives there what the whole layer gives."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sclsearch.encoders import gradient_cache
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from tests.encoders.gradients import with_gradient

Inputs = tuple[Tensor, Tensor, Tensor]
RATES = [(0.0,), (0.0, 0.0, 0.0)]


def first_and_gradient(
    encoder: Encoder, inputs: Inputs, rates: tuple[float, ...], **options: Any
) -> tuple[Tensor, Tensor]:
    return with_gradient(encoder, encoder.hidden(*inputs, rates, **options)[:, 0])  # [V * B, d]


@pytest.mark.parametrize("packs", [True, False], ids=["packed", "padded"])
@pytest.mark.parametrize("rates", RATES, ids=["one view", "three views"])
def test_states_and_gradients_equal_those_of_the_whole_layer(
    encoder: Encoder, ragged: Inputs, rates: tuple[float, ...], packs: bool
) -> None:
    assert encoder.trims
    encoder.packs = packs
    encoder.train()
    trimmed, trimmed_gradient = first_and_gradient(encoder, ragged, rates, first_only=True)
    whole, gradient = first_and_gradient(encoder, ragged, rates)
    torch.testing.assert_close(trimmed, whole)
    assert (trimmed_gradient - gradient).norm() < 1e-5 * gradient.norm()


@pytest.mark.parametrize("packs", [True, False], ids=["packed", "padded"])
def test_the_last_layer_ends_with_one_position_a_row(
    bert: Encoder, ragged: Inputs, packs: bool
) -> None:
    bert.packs = packs
    shapes: list[torch.Size] = []
    feed_forward = bert.model.get_submodule("encoder.layer.1.intermediate")
    feed_forward.register_forward_hook(lambda _layer, given, _made: shapes.append(given[0].shape))
    states = bert.hidden(*ragged, (0.0, 0.0), first_only=True)
    assert shapes == [(10, 1, bert.width)]
    assert states.shape == (10, 1, bert.width)


@pytest.mark.parametrize("packs", [True, False], ids=["packed", "padded"])
def test_views_differ_and_a_view_without_dropout_is_the_evaluation_forward(
    encoder: Encoder, ragged: Inputs, packs: bool
) -> None:
    encoder.packs = packs
    rates = (0.0, 0.3, 0.3)
    expected = encoder.eval().hidden(*ragged, rates, first_only=True).chunk(3)[0]
    torch.manual_seed(0)
    views = encoder.train().hidden(*ragged, rates, first_only=True).chunk(3)
    torch.testing.assert_close(views[0], expected)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.isclose(views[one], views[other]).all(dim=-1).any()


def test_chunks_of_a_large_batch_leave_the_gradient_of_the_whole(
    encoder: Encoder, ragged: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.train()
    whole, gradient = first_and_gradient(encoder, ragged, (0.0, 0.0))
    monkeypatch.setattr(gradient_cache, "LIMIT", 8)
    monkeypatch.setattr(gradient_cache, "CHUNK", 8)
    chunked, chunked_gradient = first_and_gradient(encoder, ragged, (0.0, 0.0), first_only=True)
    torch.testing.assert_close(chunked, whole)
    assert (chunked_gradient - gradient).norm() < 1e-5 * gradient.norm()


def test_other_forwards_keep_all_positions(bert: Encoder, ragged: Inputs) -> None:
    expected = bert.hidden(*ragged, (0.0,))
    bert.hidden(*ragged, (0.0,), first_only=True)
    assert torch.equal(bert.hidden(*ragged, (0.0,)), expected)


def test_a_forward_that_fails_leaves_nothing_behind(bert: Encoder, ragged: Inputs) -> None:
    expected = bert.hidden(*ragged, (0.0,))

    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    feed_forward = bert.model.get_submodule("encoder.layer.1.intermediate")
    hook = feed_forward.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="no memory"):
        bert.hidden(*ragged, (0.0,), first_only=True)
    hook.remove()
    assert torch.equal(bert.hidden(*ragged, (0.0,)), expected)


@pytest.mark.parametrize("architecture", ["MPNet", "ModernBert", "Albert"])
def test_an_encoder_that_cannot_leave_them_out_keeps_all_positions(
    save_tiny: Callable[[str], Path], inputs: Inputs, architecture: str
) -> None:
    encoder = load_encoder(save_tiny(architecture), "tiny")
    assert not encoder.trims
    assert encoder.hidden(*inputs, (0.0,), first_only=True).shape == (3, 7, encoder.width)


def test_a_copy_leaves_them_out_by_itself(bert: Encoder, ragged: Inputs) -> None:
    other = copy.deepcopy(bert)
    for parameter in bert.parameters():
        parameter.data.zero_()
    expected = other.hidden(*ragged, (0.0,))[:, :1]
    torch.testing.assert_close(other.hidden(*ragged, (0.0,), first_only=True), expected)
