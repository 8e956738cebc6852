"""Tests of states, pooling, dropout by view, and savings that change no state or gradient."""

import math
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from sclsearch.encoders import savings
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.row_dropout import ATTENTION, DropoutRates, RowDropout
from sclsearch.encoders.savings import SubsetEmbedding
from sclsearch.errors import SclsearchError
from sclsearch.objectives import sup_con
from tests.conftest import Save

Inputs = tuple[Tensor, Tensor, Tensor]
RATES = (0.0, 0.1, 0.5, 0.1)


@pytest.fixture(params=["tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_electra", "minilm"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Return an encoder of each family that supports a dropout rate per view."""
    return load_encoder(request.getfixturevalue(request.param), request.param)


@pytest.fixture
def inputs() -> Inputs:
    """Return ids, mask and types of nine texts of 1 to 12 tokens."""
    mask = torch.arange(12) < torch.tensor([3, 12, 1, 7, 2, 12, 12, 5, 9])[:, None]
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(2))
    return torch.where(mask, ids, 0), mask, (torch.arange(12) > 4).long() * mask


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


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


@pytest.mark.parametrize("family", ["Bert", "DistilBert", "Electra", "MPNet", "ModernBert"])
def test_masks_built_for_a_gpu_give_the_same_states(
    save_tiny: Save, inputs: Inputs, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(save_tiny(family), "tiny")
    mask, rates = inputs[1].repeat(2, 1), (0.0, 0.0)
    assert encoder.accepts_4d_masks == (family != "ModernBert")
    encoder.can_pack = False
    expected = encoder.hidden(*inputs, rates)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    states = encoder.hidden(*inputs, rates)
    torch.testing.assert_close(states[mask], expected[mask])
    first = encoder.hidden(*inputs, rates, first_only=True)
    torch.testing.assert_close(first[:, 0], expected[:, 0])


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


def assert_dropped(before: Tensor, after: Tensor, rate: float) -> None:
    """Check that a share of the values is 0, within five deviations, and the rest is scaled."""
    dropped = (after == 0) & (before != 0)
    torch.testing.assert_close(after[~dropped], before[~dropped] / (1 - rate))
    draws = int((before != 0).sum())
    assert abs(int(dropped.sum()) - draws * rate) <= 5 * math.sqrt(draws * rate * (1 - rate))


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "padded"])
def test_hidden_layers_have_the_dropout_rate_of_the_view(
    encoder: Encoder, inputs: Inputs, packed: bool
) -> None:
    encoder.can_pack = packed
    of_token = torch.arange(4).repeat_interleave(inputs[1].sum())
    seen: list[tuple[Tensor, Tensor]] = []
    for module in encoder.modules():
        if type(module) is RowDropout:
            module.register_forward_hook(lambda _, given, result: seen.append((given[0], result)))
    first, *_ = encoder.train().hidden(*inputs, RATES).chunk(4)
    in_a_layer = 1 if encoder.model.config.model_type == "distilbert" else 2
    assert len(seen) == 1 + in_a_layer * encoder.model.config.num_hidden_layers
    assert sum(len(given) == 1 for given, _ in seen) == (len(seen) - 1) * packed
    for pair in seen:
        for view, rate in enumerate(RATES):
            before, after = (
                x[0, of_token == view] if len(x) == 1 else x.chunk(4)[view] for x in pair
            )
            assert_dropped(before, after, rate)
    whole = encoder.eval().hidden(*inputs, (0.9,))
    torch.testing.assert_close(first[inputs[1]], whole[inputs[1]])


def test_attention_has_the_dropout_rate_of_the_view() -> None:
    module: Any = nn.Identity()
    module.view_rates = DropoutRates(RATES)
    module.is_causal = False
    query = torch.zeros(4 * 40, 2, 16, 16)  # equal weights of 1 / 16 before dropout
    value = torch.eye(16).expand(4 * 40, 2, 16, 16)
    weights: Tensor = ALL_ATTENTION_FUNCTIONS[ATTENTION](module, query, query, value, None)[0]
    for rate, view in zip(RATES, weights.chunk(4), strict=True):
        assert_dropped(torch.full_like(view, 1 / 16), view, rate)


def test_a_cut_encoder_has_no_matrix_of_all_embeddings(bert: Encoder) -> None:
    assert SubsetEmbedding.install(bert.model, torch.tensor([0, 5, 7])) is not None
    with pytest.raises(RuntimeError, match="full_vocabulary"):
        _ = bert.embeddings


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dropout_keeps_the_dtype_and_refuses_a_tensor_that_views_share(dtype: torch.dtype) -> None:
    x, dropout = torch.ones(4, 8, dtype=dtype), RowDropout(DropoutRates((0.0, 0.5)))
    assert dropout(x).dtype == dtype
    with pytest.raises(ValueError, match=r"the 2 views need rows of their own"):
        dropout(x[:1])


def states_and_gradient(
    encoder: Encoder, inputs: Inputs, *, read_first: bool, first_only: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the states at the tokens, or the first one, and the gradient of a sum of them."""
    encoder.train().zero_grad()
    states = encoder.hidden(*inputs, (0.0, 0.0), first_only=first_only)
    states = states[:, 0] if read_first else states[inputs[1].repeat(2, 1)]
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
    (states * weights).sum().backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    return states.detach(), torch.cat(grads)


@pytest.mark.parametrize(
    ("can_pack", "first_only", "chunk"),
    [(True, False, 0), (True, True, 0), (False, True, 0), (True, True, 8)],
)
def test_skipped_positions_do_not_change_states_and_gradients(
    encoder: Encoder, inputs: Inputs, can_pack: bool, first_only: bool, chunk: int
) -> None:
    assert encoder.can_pack
    assert encoder.can_trim
    encoder.can_pack, encoder.chunk_tokens = can_pack, chunk
    states, gradient = states_and_gradient(
        encoder, inputs, read_first=first_only, first_only=first_only
    )
    encoder.can_pack, encoder.chunk_tokens = False, 0
    expected, expected_gradient = states_and_gradient(encoder, inputs, read_first=first_only)
    torch.testing.assert_close(states, expected)
    assert (gradient - expected_gradient).norm() < 1e-5 * expected_gradient.norm()


def contrasted(encoder: Encoder, texts: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Return the states of all rows, the gradient of a contrast, and the next random number."""
    torch.manual_seed(3)
    encoder.zero_grad()
    states = encoder.train().hidden(*texts, RATES)  # [V * B, T, d]
    y = (torch.arange(len(texts[0])) % 2).repeat(len(RATES))
    loss = sup_con(encoder.pool(states, texts[1], "mean"), y, tau=0.1)
    encoder.hidden(*texts, (0.5,))  # the second forward pass needs the rates of this batch
    loss.backward()  # type: ignore[no-untyped-call]
    grads = [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
    tokens = texts[1].repeat(len(RATES), 1)
    return states.detach()[tokens], torch.cat(grads), torch.rand(1)


def test_the_second_forward_pass_of_a_chunk_has_the_same_dropout(
    encoder: Encoder, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Limits that divide four views of nine texts of twelve tokens into six chunks.
    monkeypatch.setattr(savings, "LIMIT", 100)
    monkeypatch.setattr(savings, "CHUNK", 80)
    states, gradient, after = contrasted(encoder, inputs)
    monkeypatch.setattr(savings, "checkpoint", lambda forward, *given, **_: forward(*given))
    expected_states, expected, expected_after = contrasted(encoder, inputs)
    assert torch.equal(states, expected_states)
    assert (gradient - expected).norm() < 1e-5 * expected.norm()
    assert torch.equal(after, expected_after)
