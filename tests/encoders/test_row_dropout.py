"""Tests of a separate dropout rate for each view, in hidden layers and in attention."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.row_dropout import ATTENTION, DropoutRates, RowDropout
from tests.encoders.conftest import Inputs

RATES = (0.0, 0.1, 0.5, 0.1)
ROWS = 40  # of a view


def sigmas(zeros: float, draws: int, rate: float) -> float:
    """Return the distance of a count of zeros from its expectation, in standard deviations."""
    return abs(zeros - draws * rate) / math.sqrt(draws * rate * (1 - rate))


def attention(rates: tuple[float, ...], rows: int, tokens: int = 16) -> Tensor:
    """Return the attention weights after dropout, `[rows, T, heads, T]`; each was 1 / T."""
    module: Any = nn.Identity()
    module.view_rates = DropoutRates(rates)
    module.is_causal = False
    query = torch.zeros(rows, 2, tokens, tokens)
    value = torch.eye(tokens).expand(rows, 2, tokens, tokens)
    weights: Tensor = ALL_ATTENTION_FUNCTIONS[ATTENTION](module, query, query, value, None)[0]
    return weights


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def test_evaluation_ignores_the_rates(encoder: Encoder, inputs: Inputs) -> None:
    views = encoder.eval().hidden(*inputs, (0.5, 0.9))
    assert torch.equal(views, encoder.hidden(*inputs, (0.0, 0.0)))


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "padded"])
def test_hidden_layers_have_the_dropout_rate_of_the_view(
    encoder: Encoder, inputs: Inputs, packed: bool
) -> None:
    encoder.can_pack = packed
    ids, mask, types = (tensor.repeat(10, 1) for tensor in inputs)
    of_token = torch.arange(4).repeat_interleave(mask.sum())
    seen: list[tuple[Tensor, Tensor]] = []
    for module in encoder.modules():
        if type(module) is RowDropout:
            module.register_forward_hook(lambda _, given, result: seen.append((given[0], result)))
    encoder.train().hidden(ids, mask, types, RATES)
    in_a_layer = 1 if encoder.model.config.model_type == "distilbert" else 2
    assert len(seen) == 1 + in_a_layer * encoder.model.config.num_hidden_layers
    assert sum(len(given) == 1 for given, _ in seen) == (len(seen) - 1) * packed
    for given, result in seen:
        for view, rate in enumerate(RATES):
            before, after = (
                x[0, of_token == view] if len(x) == 1 else x.chunk(4)[view] for x in (given, result)
            )
            dropped = (after == 0) & (before != 0)
            torch.testing.assert_close(after[~dropped], before[~dropped] / (1 - rate))
            if rate:
                assert sigmas(dropped.sum().item(), int((before != 0).sum()), rate) < 5
            else:
                assert torch.equal(after, before)


def test_attention_has_the_dropout_rate_of_the_view() -> None:
    for rate, weights in zip(RATES, attention(RATES, 4 * ROWS).chunk(4), strict=True):
        dropped = weights == 0
        torch.testing.assert_close(
            weights[~dropped], torch.full_like(weights, 1 / 16 / (1 - rate))[~dropped]
        )
        if rate:
            assert sigmas(dropped.sum().item(), weights.numel(), rate) < 5
        else:
            assert not dropped.any()


def test_views_with_one_rate_equal_ordinary_dropout() -> None:
    x = torch.ones(6, 50)
    torch.manual_seed(3)
    expected = F.dropout(x, 0.3)
    torch.manual_seed(3)
    assert torch.equal(RowDropout(DropoutRates((0.3, 0.3)))(x), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dropout_keeps_the_dtype(dtype: torch.dtype) -> None:
    x = torch.ones(4, 8, dtype=dtype)
    assert RowDropout(DropoutRates((0.0, 0.5)))(x).dtype == dtype
