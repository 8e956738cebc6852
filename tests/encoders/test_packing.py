"""Layers without padding give what layers with padding give, token by token."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from tests.encoders.gradients import with_gradient

Inputs = tuple[Tensor, Tensor, Tensor]


def states_and_gradient(
    encoder: Encoder, inputs: Inputs, rates: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    mask = inputs[1].repeat(len(rates), 1)
    return with_gradient(encoder, encoder.hidden(*inputs, rates)[mask])  # [tokens, d]


@pytest.mark.parametrize("rates", [(0.0,), (0.0, 0.0, 0.0)], ids=["one view", "three views"])
def test_states_and_gradients_equal_those_with_padding(
    encoder: Encoder, ragged: Inputs, rates: tuple[float, ...]
) -> None:
    assert encoder.packs
    encoder.train()
    packed, packed_gradient = states_and_gradient(encoder, ragged, rates)
    encoder.packs = False
    padded, gradient = states_and_gradient(encoder, ragged, rates)
    torch.testing.assert_close(packed, padded)
    assert (packed_gradient - gradient).norm() < 1e-5 * gradient.norm()


def shapes_in_layers(bert: Encoder) -> list[torch.Size]:
    """Returns a list to which each forward adds the shape of what the second layer is given."""
    shapes: list[torch.Size] = []
    second = bert.model.get_submodule("encoder.layer.1")
    second.register_forward_hook(lambda _layer, given, _result: shapes.append(given[0].shape))
    return shapes


def test_layers_see_tokens_alone(bert: Encoder, ragged: Inputs) -> None:
    shapes = shapes_in_layers(bert)
    states = bert.hidden(*ragged, (0.0, 0.0))
    assert shapes == [(1, 2 * 25, bert.width)]
    assert states.shape == (10, 12, bert.width)
    assert not states[~ragged[1].repeat(2, 1)].any()


def test_rows_of_about_one_length_stay_as_they_are(bert: Encoder, unpadded: Inputs) -> None:
    shapes = shapes_in_layers(bert)
    bert.hidden(*unpadded, (0.0,))
    assert shapes == [(2, 7, bert.width)]


def test_views_differ_and_a_view_without_dropout_is_the_evaluation_forward(
    encoder: Encoder, ragged: Inputs
) -> None:
    rates = (0.0, 0.3, 0.3)
    expected = encoder.eval().hidden(*ragged, rates).chunk(3)[0]
    torch.manual_seed(0)
    still, second, third = encoder.train().hidden(*ragged, rates).chunk(3)
    assert torch.equal(still, expected)
    assert not torch.isclose(second, third)[ragged[1]].all(dim=1).any()


def test_the_model_called_by_itself_is_not_packed(bert: Encoder, ragged: Inputs) -> None:
    ids, mask, types = ragged
    expected = bert.hidden(ids, mask, types, (0.0,))
    plain = bert.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
    assert plain[~mask].any()
    torch.testing.assert_close(plain[mask], expected[mask])


def test_an_encoder_whose_attention_is_its_own_keeps_padding(
    tiny_mpnet: Path, inputs: Inputs
) -> None:
    encoder = load_encoder(tiny_mpnet, "tiny")
    assert not encoder.packs
    assert encoder.hidden(*inputs, (0.0,)).shape == (3, 7, encoder.width)


def test_a_copy_packs_by_itself(bert: Encoder, ragged: Inputs, unpadded: Inputs) -> None:
    other = copy.deepcopy(bert)
    expected = bert.hidden(*ragged, (0.0,))
    bert.hidden(*unpadded, (0.0,))
    assert torch.equal(other.hidden(*ragged, (0.0,)), expected)
