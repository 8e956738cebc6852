"""Tests of label attention against the formulas of LEAM and LSAN."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sclsearch.encoders.heads import (
    LabelSpecificAttention,
    WindowAttention,
)

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
            match = bias[label]
            for other in range(len(text)):
                if abs(other - token) <= reach:
                    cosines = [F.cosine_similarity(text[other], vector, dim=0) for vector in labels]
                    column = weight[label, :, other - token + reach]
                    match = match + sum(w * c for w, c in zip(column, cosines, strict=True))
            matches.append(match.relu())
        best.append(torch.stack(matches).max())
    return torch.stack(best).softmax(0)


@pytest.mark.parametrize("kernel", [1, 3, 9])
def test_token_weights_equal_the_formula_of_leam(
    states: Tensor, mask: Tensor, labels: Tensor, kernel: int
) -> None:
    torch.manual_seed(0)
    attention = WindowAttention(4, kernel)
    weights = attention.weights(states, labels, mask)
    z = attention(states, labels, mask)
    for row, length in enumerate(LENGTHS):
        expected = expected_weights(attention, states[row, :length], labels)
        torch.testing.assert_close(weights[row, :length], expected)
        assert not weights[row, length:].any()
        torch.testing.assert_close(z[row], expected @ states[row, :length])


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
