"""Tests of label attention against the formulas of LEAM and LSAN."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.encoders.label_attention import (
    LabelSpecificAttention,
    Mixing,
    WindowAttention,
    check_window,
)
from sclsearch.errors import SclsearchError

EACH_MIXING = pytest.mark.parametrize("mixing", ["full", "shared"])
LENGTHS = (6, 3, 1)


@pytest.fixture
def states() -> Tensor:
    """Return the states of three texts of 6, 3 and 1 tokens; padding has random states."""
    return torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def mask() -> Tensor:
    return torch.arange(6) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture
def labels() -> Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(2))


def expected_weights(attention: WindowAttention, text: Tensor, labels: Tensor) -> Tensor:
    """Return the token weights of one text, `[T]`, by loops over tokens and labels."""
    weight, bias = attention.conv.weight, attention.conv.bias
    assert bias is not None
    reach = weight.shape[-1] // 2
    best = []
    for token in range(len(text)):
        matches = []
        for label in range(len(labels)):
            channel = label if attention.channels > 1 else 0
            match = bias[channel]
            for other in range(len(text)):
                if abs(other - token) <= reach:
                    cosines = [F.cosine_similarity(text[other], vector, dim=0) for vector in labels]
                    read = cosines if attention.channels > 1 else [cosines[label]]
                    column = weight[channel, :, other - token + reach]
                    match = match + sum(w * c for w, c in zip(column, read, strict=True))
            matches.append(match.relu() if attention.relu else match)
        best.append(torch.stack(matches).max())
    return torch.stack(best).softmax(0)


@EACH_MIXING
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("kernel", [1, 3, 9])
def test_token_weights_equal_the_formula_of_leam(
    states: Tensor, mask: Tensor, labels: Tensor, mixing: Mixing, relu: bool, kernel: int
) -> None:
    torch.manual_seed(0)
    attention = WindowAttention(4, kernel, mixing=mixing, relu=relu)
    weights = attention.weights(states, labels, mask, mask)
    z = attention(states, labels, mask, mask)
    for row, length in enumerate(LENGTHS):
        expected = expected_weights(attention, states[row, :length], labels)
        torch.testing.assert_close(weights[row, :length], expected)
        assert not weights[row, length:].any()
        torch.testing.assert_close(z[row], expected @ states[row, :length])


def test_uncounted_tokens_have_weight_0_but_affect_their_neighbors(
    states: Tensor, mask: Tensor, labels: Tensor
) -> None:
    torch.manual_seed(0)
    attention = WindowAttention(4, 3, mixing="full", relu=False)
    counted = mask[:1].clone()
    counted[0, 0] = False
    all_weights = attention.weights(states[:1], labels, mask[:1], mask[:1])[0]
    weights = attention.weights(states[:1], labels, mask[:1], counted)[0]
    assert weights[0] == 0
    torch.testing.assert_close(weights[1:], all_weights[1:] / all_weights[1:].sum())


def test_token_weights_do_not_depend_on_vector_lengths(
    states: Tensor, mask: Tensor, labels: Tensor
) -> None:
    attention = WindowAttention(4, 3, mixing="full")
    weights = attention.weights(states, labels, mask, mask)
    torch.testing.assert_close(attention.weights(9 * states, labels / 7, mask, mask), weights)


def test_text_vectors_equal_the_formula_of_lsan(
    states: Tensor, mask: Tensor, labels: Tensor
) -> None:
    torch.manual_seed(0)
    attention = LabelSpecificAttention(8, 4, 5)
    found = attention(states, labels, mask)
    assert found.shape == (3, 4, 8)
    for row, length in enumerate(LENGTHS):
        text = states[row, :length]
        hidden = torch.tanh(attention.first(text))
        for label, vector in enumerate(labels):
            logits = hidden @ attention.second.weight[label] + attention.second.bias[label]
            own = logits.softmax(0) @ text
            by_label = sum(((vector @ token) * token for token in text), torch.zeros(8))
            gates = attention.label_gate(by_label).sigmoid(), attention.own_gate(own).sigmoid()
            share = gates[0] / (gates[0] + gates[1])
            torch.testing.assert_close(found[row, label], share * by_label + (1 - share) * own)


def test_a_window_size_must_be_odd() -> None:
    check_window(5, "kernel")
    with pytest.raises(SclsearchError, match=r"^kernel: must be odd, .* got 4\. Use 3 or 5\.$"):
        check_window(4, "kernel")
