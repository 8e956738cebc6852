"""Tests of states and pooling against the plain model, and of detected capabilities."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModel

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from tests.conftest import Save
from tests.encoders.conftest import Inputs


def plain_outputs(encoder: Encoder, inputs: Inputs, *, training: bool = False) -> Any:
    """Return the outputs of the plain model of transformers, with the dropout of seed 7."""
    plain = AutoModel.from_pretrained(str(encoder.model.name_or_path)).train(training)
    segments = getattr(plain.config, "type_vocab_size", 0) > 1
    named = {"token_type_ids": inputs[2]} if segments else {}
    torch.manual_seed(7)
    return plain(input_ids=inputs[0], attention_mask=inputs[1], **named)


def test_states_are_those_of_the_plain_model(encoder: Encoder, inputs: Inputs) -> None:
    expected, mask = plain_outputs(encoder, inputs).last_hidden_state, inputs[1]
    torch.testing.assert_close(encoder.hidden(*inputs, (0.0,))[mask], expected[mask])
    encoder.can_pack = False  # packed layers draw only for tokens
    noisy = plain_outputs(encoder, inputs, training=True).last_hidden_state
    torch.manual_seed(7)
    torch.testing.assert_close(encoder.train().hidden(*inputs, (0.1,)), noisy)


def test_masks_built_for_a_gpu_give_the_same_states(
    encoder: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask, rates = inputs[1].repeat(2, 1), (0.0, 0.0)
    encoder.can_pack = False
    expected = encoder.hidden(*inputs, rates)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    states = encoder.hidden(*inputs, rates)
    torch.testing.assert_close(states[mask], expected[mask])
    first = encoder.hidden(*inputs, rates, first_only=True)
    torch.testing.assert_close(first, expected[:, :1])


@pytest.mark.parametrize("architecture", ["MPNet", "ModernBert"])
def test_encoders_with_masks_of_their_own_have_the_same_states_on_a_gpu(
    save_tiny: Save, inputs: Inputs, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(save_tiny(architecture), "tiny")
    expected = encoder.hidden(*inputs, (0.0,))
    monkeypatch.setattr(Tensor, "is_cuda", True)
    assert encoder.accepts_4d_masks == (architecture == "MPNet")
    assert torch.equal(encoder.hidden(*inputs, (0.0,))[inputs[1]], expected[inputs[1]])


def test_poolings_are_the_first_state_the_pooler_and_the_mean_without_padding(
    bert: Encoder, inputs: Inputs
) -> None:
    mask, expected = inputs[1], plain_outputs(bert, inputs).pooler_output
    views = bert.hidden(*inputs, (0.0, 0.0))  # [2 * 9, 12, d]
    assert torch.equal(bert.pool(views, mask, "cls_raw"), views[:, 0])
    torch.testing.assert_close(bert.pool(views, mask, "cls_pooled"), expected.repeat(2, 1))
    noisy = bert.train().hidden(*inputs, (0.0, 0.3))
    means = [text[tokens].mean(0) for text, tokens in zip(noisy, [*mask, *mask], strict=True)]
    torch.testing.assert_close(bert.pool(noisy, mask, "mean"), torch.stack(means))
    with pytest.raises(ValueError, match=r"^pooling: .* got 'max'"):
        bert.pool(views, mask, "max")


@pytest.mark.parametrize("architecture", ["MPNet", "DebertaV2"])
def test_a_model_without_the_interface_encodes_each_view_with_its_dropout_rate(
    save_tiny: Save, inputs: Inputs, architecture: str
) -> None:
    encoder = load_encoder(save_tiny(architecture), "mine")
    expected = encoder.eval().hidden(*inputs, (0.0,))
    first, second, third = encoder.train().hidden(*inputs, (0.0, 0.5, 0.0)).chunk(3)
    assert torch.equal(first, expected)
    assert not torch.isclose(second, expected).all(dim=(1, 2)).any()
    assert torch.equal(third, expected)
    torch.manual_seed(0)
    one = encoder.hidden(*inputs, (0.1,))
    torch.manual_seed(0)
    assert torch.equal(encoder.hidden(*inputs, (0.1, 0.2))[: len(one)], one)


@pytest.mark.parametrize("family", ["bert", "distilbert", "electra", "albert", "roberta"])
def test_a_text_must_not_exceed_the_positions_of_the_encoder(
    request: pytest.FixtureRequest, family: str
) -> None:
    encoder = load_encoder(request.getfixturevalue(f"tiny_{family}"), "tiny")
    tokens = 160 - (family == "roberta")
    encoder.check_length(tokens, "max_length")
    for length, fits in ((tokens, True), (tokens + 1, False)):
        ids = torch.full((1, length), 5)
        with nullcontext() if fits else pytest.raises((IndexError, RuntimeError)):
            encoder.hidden(ids, torch.ones_like(ids).bool(), torch.zeros_like(ids), (0.0,))
    with pytest.raises(SclsearchError, match=f"^max_length: .* {tokens}, .* got {tokens + 1}"):
        encoder.check_length(tokens + 1, "max_length")
