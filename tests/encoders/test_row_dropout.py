"""Tests of a separate dropout rate for each view, in hidden layers and in attention."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.row_dropout import ATTENTION, DropoutRates, RowDropout
from tests.encoders.conftest import Inputs

RATES = (0.0, 0.1, 0.5, 0.1)


def assert_dropped(before: Tensor, after: Tensor, rate: float) -> None:
    """Check that a share of the values is 0, within five deviations, and the rest is scaled."""
    dropped = (after == 0) & (before != 0)
    torch.testing.assert_close(after[~dropped], before[~dropped] / (1 - rate))
    draws = int((before != 0).sum())
    assert abs(int(dropped.sum()) - draws * rate) <= 5 * math.sqrt(draws * rate * (1 - rate))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dropout_keeps_the_dtype(dtype: torch.dtype) -> None:
    x = torch.ones(4, 8, dtype=dtype)
    assert RowDropout(DropoutRates((0.0, 0.5)))(x).dtype == dtype


def test_a_tensor_that_views_share_is_refused_instead_of_emptied() -> None:
    with pytest.raises(ValueError, match=r"the 2 views need rows of their own"):
        RowDropout(DropoutRates((0.0, 0.5)))(torch.ones(1, 4, 8))
