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
from tests.tiny import SIZES


def test_states_are_those_of_the_plain_model(encoder: Encoder, inputs: Inputs) -> None:
    ids, mask, types = inputs
    plain = AutoModel.from_pretrained(str(encoder.model.name_or_path)).eval()
    named = {"token_type_ids": types} if encoder.model.config.model_type == "bert" else {}
    expected = plain(input_ids=ids, attention_mask=mask, **named).last_hidden_state
    found = encoder.hidden(ids, mask, types, (0.0,))
    torch.testing.assert_close(found[mask], expected[mask])


@pytest.mark.parametrize("padded", [True, False], ids=["padding", "no padding"])
def test_one_view_has_the_dropout_of_the_plain_model(
    encoder: Encoder, inputs: Inputs, unpadded: Inputs, padded: bool
) -> None:
    encoder.can_pack = False  # packed layers draw only for tokens
    ids, mask, types = inputs if padded else unpadded
    plain = AutoModel.from_pretrained(str(encoder.model.name_or_path)).train()
    torch.manual_seed(7)
    expected = plain(input_ids=ids, attention_mask=mask).last_hidden_state
    torch.manual_seed(7)
    found = encoder.train().hidden(ids, mask, types, (0.1,))
    torch.testing.assert_close(found, expected)


def test_masks_built_for_a_gpu_give_the_same_states(
    encoder: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask, rates = inputs[1].repeat(2, 1), (0.0, 0.0)
    encoder.can_pack = False
    expected = encoder.hidden(*inputs, rates)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    states = encoder.hidden(*inputs, rates)
    first = encoder.hidden(*inputs, rates, first_only=True)
    torch.testing.assert_close(states[mask], expected[mask])
    torch.testing.assert_close(first, expected[:, :1])


@pytest.mark.parametrize("architecture", ["MPNet", "ModernBert"])
def test_encoders_with_masks_of_their_own_have_the_same_states_on_a_gpu(
    save_tiny: Save,
    inputs: Inputs,
    architecture: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = load_encoder(save_tiny(architecture), "tiny")
    expected = encoder.hidden(*inputs, (0.0,))
    monkeypatch.setattr(Tensor, "is_cuda", True)
    assert encoder.accepts_4d_masks == (architecture == "MPNet")
    assert torch.equal(encoder.hidden(*inputs, (0.0,))[inputs[1]], expected[inputs[1]])


def test_segments_change_the_states_of_models_with_segments(
    encoder: Encoder, inputs: Inputs
) -> None:
    ids, mask, types = inputs
    same = torch.equal(
        encoder.hidden(ids, mask, types, (0.0,)), encoder.hidden(ids, mask, types + 1, (0.0,))
    )
    assert same == (encoder.model.config.model_type in {"roberta", "distilbert"})


def test_cls_raw_is_the_first_state_and_unknown_poolings_are_errors(
    bert: Encoder, inputs: Inputs
) -> None:
    states = bert.hidden(*inputs, (0.0,))
    assert torch.equal(bert.pool(states, inputs[1], "cls_raw"), states[:, 0])
    with pytest.raises(ValueError, match=r"^pooling: .* got 'max'"):
        bert.pool(states, inputs[1], "max")


def test_cls_pooled_is_the_pooler_output_of_the_checkpoint(bert: Encoder, inputs: Inputs) -> None:
    ids, mask, types = inputs
    plain = AutoModel.from_pretrained(str(bert.model.name_or_path)).eval()
    expected = plain(input_ids=ids, attention_mask=mask, token_type_ids=types).pooler_output
    states = bert.hidden(*inputs, (0.0,))
    torch.testing.assert_close(bert.pool(states, mask, "cls_pooled"), expected)


def test_the_mean_excludes_padding_in_every_view(bert: Encoder, inputs: Inputs) -> None:
    _, mask, _ = inputs
    states = bert.train().hidden(*inputs, (0.0, 0.3))  # [2 * 3, 7, d]
    expected = [
        torch.stack([row for row, seen in zip(text, tokens, strict=True) if seen]).mean(0)
        for text, tokens in zip(states, [*mask, *mask], strict=True)
    ]
    torch.testing.assert_close(bert.pool(states, mask, "mean"), torch.stack(expected))


@pytest.mark.parametrize(
    ("folder", "has_pooler"),
    [
        ("tiny_bert", True),
        ("tiny_roberta", False),
        ("tiny_distilbert", False),
        ("tiny_electra", False),
        ("tiny_albert", False),
        pytest.param("minilm", True, marks=pytest.mark.slow),
    ],
)
def test_cls_pooled_needs_a_pretrained_pooler(
    folder: str, has_pooler: bool, request: pytest.FixtureRequest
) -> None:
    encoder = load_encoder(request.getfixturevalue(folder), folder)
    assert encoder.pretrained_pooler == has_pooler
    for pooling in ("cls_raw", "mean"):
        encoder.check_pooling(pooling, "pooling")
    if has_pooler:
        encoder.check_pooling("cls_pooled", "pooling")
        return
    with pytest.raises(SclsearchError, match=f"^scl.yaml: pooling: .* model '{folder}'"):
        encoder.check_pooling("cls_pooled", "scl.yaml: pooling")


@pytest.mark.parametrize(
    ("architecture", "sizes"),
    [
        ("MPNet", {}),
        ("DebertaV2", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    ],
)
def test_a_model_without_the_interface_encodes_each_view_with_its_dropout_rate(
    save_tiny: Save, inputs: Inputs, architecture: str, sizes: dict[str, Any]
) -> None:
    encoder = load_encoder(save_tiny(architecture, {**SIZES, **sizes}), "mine")
    assert not encoder.per_row_dropout
    with torch.no_grad():
        expected = encoder.eval().hidden(*inputs, (0.0,))
        found = encoder.train().hidden(*inputs, (0.0, 0.5, 0.0))
        torch.manual_seed(0)
        one = encoder.hidden(*inputs, (0.1,))
        torch.manual_seed(0)
        stacked = encoder.hidden(*inputs, (0.1, 0.2))
    first, second, third = found.chunk(3)
    assert torch.equal(first, expected)
    assert not torch.isclose(second, expected).all(dim=(1, 2)).any()
    assert torch.equal(third, expected)
    assert torch.equal(stacked[: len(one)], one)


@pytest.mark.parametrize(
    ("family", "tokens"),
    [("bert", 160), ("distilbert", 160), ("electra", 160), ("albert", 160), ("roberta", 159)],
)
def test_a_text_must_not_exceed_the_positions_of_the_encoder(
    request: pytest.FixtureRequest, family: str, tokens: int
) -> None:
    encoder = load_encoder(request.getfixturevalue(f"tiny_{family}"), "tiny")
    encoder.check_length(tokens, "max_length")
    for length, fits in ((tokens, True), (tokens + 1, False)):
        ids = torch.full((1, length), 5)
        inputs = ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids)
        with nullcontext() if fits else pytest.raises((IndexError, RuntimeError)):
            encoder.hidden(*inputs, (0.0,))
    with pytest.raises(SclsearchError, match=f"^max_length: .* {tokens}, .* got {tokens + 1}"):
        encoder.check_length(tokens + 1, "max_length")
