"""Tests of layers without padding and of a last layer at position 0 only."""

import copy

import pytest
import torch
from torch import Tensor

from sclsearch.encoders import savings
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from tests.conftest import Save
from tests.encoders.conftest import Inputs

Rates = tuple[float, ...]

EACH_RATES = pytest.mark.parametrize(
    "rates", [(0.0,), (0.0, 0.0, 0.0)], ids=["one view", "three views"]
)
EACH_PACKING = pytest.mark.parametrize("can_pack", [True, False], ids=["packed", "padded"])


def with_gradient(encoder: Encoder, states: Tensor) -> tuple[Tensor, Tensor]:
    """Return states, and the encoder's gradient of a weighted sum of them as one vector."""
    encoder.zero_grad()
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
    (states * weights).sum().backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    return states.detach(), torch.cat(grads)


def states_and_gradient(encoder: Encoder, inputs: Inputs, rates: Rates) -> tuple[Tensor, Tensor]:
    mask = inputs[1].repeat(len(rates), 1)
    return with_gradient(encoder, encoder.hidden(*inputs, rates)[mask])  # [tokens, d]


def first_and_gradient(
    encoder: Encoder, inputs: Inputs, rates: Rates, *, first_only: bool
) -> tuple[Tensor, Tensor]:
    states = encoder.hidden(*inputs, rates, first_only=first_only)
    return with_gradient(encoder, states[:, 0])  # [V * B, d]


def input_shapes(bert: Encoder, module: str) -> list[torch.Size]:
    """Return a list to which each forward pass adds the shape of a module's input."""
    shapes: list[torch.Size] = []
    hooked = bert.model.get_submodule(module)
    hooked.register_forward_hook(lambda _module, given, _result: shapes.append(given[0].shape))
    return shapes


def assert_same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    torch.testing.assert_close(found[0], expected[0])
    assert (found[1] - expected[1]).norm() < 1e-5 * expected[1].norm()


@EACH_RATES
def test_packed_states_and_gradients_equal_padded_ones(
    encoder: Encoder, ragged: Inputs, rates: Rates
) -> None:
    assert encoder.can_pack
    encoder.train()
    packed = states_and_gradient(encoder, ragged, rates)
    encoder.can_pack = False
    assert_same(packed, states_and_gradient(encoder, ragged, rates))


@EACH_PACKING
@EACH_RATES
def test_first_states_and_gradients_equal_those_of_the_whole_layer(
    encoder: Encoder, ragged: Inputs, rates: Rates, can_pack: bool
) -> None:
    assert encoder.can_trim
    encoder.can_pack = can_pack
    encoder.train()
    trimmed = first_and_gradient(encoder, ragged, rates, first_only=True)
    assert_same(trimmed, first_and_gradient(encoder, ragged, rates, first_only=False))


def test_first_states_in_chunks_have_the_gradient_of_the_whole_batch(
    encoder: Encoder, ragged: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.train()
    whole = first_and_gradient(encoder, ragged, (0.0, 0.0), first_only=False)
    monkeypatch.setattr(savings, "LIMIT", 8)
    monkeypatch.setattr(savings, "CHUNK", 8)
    assert_same(first_and_gradient(encoder, ragged, (0.0, 0.0), first_only=True), whole)


def test_packed_layers_process_only_tokens(bert: Encoder, ragged: Inputs) -> None:
    shapes = input_shapes(bert, "encoder.layer.1")
    states = bert.hidden(*ragged, (0.0, 0.0))
    assert shapes == [(1, 2 * 25, bert.width)]
    assert states.shape == (10, 12, bert.width)
    assert not states[~ragged[1].repeat(2, 1)].any()


def test_rows_of_similar_length_are_not_packed(bert: Encoder, unpadded: Inputs) -> None:
    shapes = input_shapes(bert, "encoder.layer.1")
    bert.hidden(*unpadded, (0.0,))
    assert shapes == [(2, 7, bert.width)]


@EACH_PACKING
def test_the_last_layer_processes_one_position_per_row(
    bert: Encoder, ragged: Inputs, can_pack: bool
) -> None:
    bert.can_pack = can_pack
    shapes = input_shapes(bert, "encoder.layer.1.intermediate")
    states = bert.hidden(*ragged, (0.0, 0.0), first_only=True)
    assert shapes == [(10, 1, bert.width)]
    assert states.shape == (10, 1, bert.width)


@EACH_PACKING
@pytest.mark.parametrize("first_only", [True, False])
def test_views_differ_and_a_view_without_dropout_equals_evaluation(
    encoder: Encoder, ragged: Inputs, can_pack: bool, first_only: bool
) -> None:
    encoder.can_pack = can_pack
    mask = ragged[1][:, :1] if first_only else ragged[1]
    rates = (0.0, 0.3, 0.3)
    expected = encoder.eval().hidden(*ragged, rates, first_only=first_only).chunk(3)[0]
    torch.manual_seed(0)
    views = encoder.train().hidden(*ragged, rates, first_only=first_only).chunk(3)
    torch.testing.assert_close(views[0][mask], expected[mask])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.isclose(views[one], views[other])[mask].all(dim=-1).any()


def test_the_model_itself_is_not_packed(bert: Encoder, ragged: Inputs) -> None:
    ids, mask, types = ragged
    expected = bert.hidden(ids, mask, types, (0.0,))
    plain = bert.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
    assert plain[~mask].any()
    torch.testing.assert_close(plain[mask], expected[mask])


@pytest.mark.parametrize("architecture", ["MPNet", "ModernBert", "Albert"])
def test_an_encoder_without_the_capability_computes_all_positions(
    save_tiny: Save, inputs: Inputs, architecture: str
) -> None:
    encoder = load_encoder(save_tiny(architecture), "tiny")
    assert not encoder.can_trim
    assert encoder.hidden(*inputs, (0.0,), first_only=True).shape == (3, 7, encoder.width)


def test_a_failed_forward_pass_leaves_no_state(bert: Encoder, ragged: Inputs) -> None:
    expected = bert.hidden(*ragged, (0.0,))

    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    feed_forward = bert.model.get_submodule("encoder.layer.1.intermediate")
    hook = feed_forward.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="no memory"):
        bert.hidden(*ragged, (0.0,), first_only=True)
    hook.remove()
    assert torch.equal(bert.hidden(*ragged, (0.0,)), expected)


def test_a_copy_of_an_encoder_has_its_own_state(
    bert: Encoder, ragged: Inputs, unpadded: Inputs
) -> None:
    other = copy.deepcopy(bert)
    expected = bert.hidden(*ragged, (0.0,))
    first = bert.hidden(*ragged, (0.0,), first_only=True)
    bert.hidden(*unpadded, (0.0,))
    for parameter in bert.parameters():
        parameter.data.zero_()
    assert torch.equal(other.hidden(*ragged, (0.0,)), expected)
    assert torch.equal(other.hidden(*ragged, (0.0,), first_only=True), first)
