"""Tests of initial weights, of the projection g, and of label attention by its formulas."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.encoders.heads import (
    INIT_STD,
    Head,
    LabelSpecificAttention,
    MaskedLMHead,
    WindowAttention,
    label_vectors,
    projection,
)

LENGTHS = (6, 3, 1)
STATES = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(1))
"""States of three texts of 6, 3 and 1 tokens; padding has random states."""
MASK = torch.arange(6) < torch.tensor(LENGTHS)[:, None]
LABELS = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def test_initial_weights_have_the_standard_deviation_of_bert_and_biases_are_zero() -> None:
    modules = nn.ModuleList([Head(64, 64, hidden=True), label_vectors(64, 64)])
    modules.append(MaskedLMHead(64, 64, 64, 1e-12, "gelu").dense)
    for name, parameter in modules.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            assert parameter.std().item() == pytest.approx(INIT_STD, rel=0.1)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_relu_is_between_the_layers_of_g(layers: int) -> None:
    g = projection(8, layers=layers)
    first, *others = (module for module in g if isinstance(module, nn.Linear))
    assert len(others) == layers - 1
    expected = first(STATES)
    for layer in others:
        expected = layer(expected.relu())
    torch.testing.assert_close(g(STATES), expected)


def expected_weights(attention: WindowAttention, text: Tensor) -> Tensor:
    """Return the token weights of one text, `[T]`, by loops over tokens and labels."""
    weight, bias = attention.conv.weight, attention.conv.bias
    assert bias is not None
    reach, best = weight.shape[-1] // 2, []
    for token in range(len(text)):
        matches = []
        for label in range(len(LABELS)):
            match = bias[label]
            for other in range(len(text)):
                if abs(other - token) <= reach:
                    cosines = [F.cosine_similarity(text[other], vector, dim=0) for vector in LABELS]
                    column = weight[label, :, other - token + reach]
                    match = match + sum(w * c for w, c in zip(column, cosines, strict=True))
            matches.append(match.relu())
        best.append(torch.stack(matches).max())
    return torch.stack(best).softmax(0)


@pytest.mark.parametrize("kernel", [1, 3, 9])
def test_texts_of_leam_are_means_by_token_weights(kernel: int) -> None:
    attention = WindowAttention(4, kernel)
    z = attention(STATES, LABELS, MASK)
    for row, length in enumerate(LENGTHS):
        text = STATES[row, :length]
        torch.testing.assert_close(z[row], expected_weights(attention, text) @ text)


def test_text_vectors_equal_the_formula_of_lsan() -> None:
    attention = LabelSpecificAttention(8, 4, 5)
    found = attention(STATES, LABELS, MASK)
    for row, length in enumerate(LENGTHS):
        text = STATES[row, :length]
        hidden = torch.tanh(attention.first(text))
        for label, vector in enumerate(LABELS):
            logits = hidden @ attention.second.weight[label] + attention.second.bias[label]
            own = logits.softmax(0) @ text
            by_label = sum(((vector @ token) * token for token in text), torch.zeros(8))
            gates = attention.label_gate(by_label).sigmoid(), attention.own_gate(own).sigmoid()
            share = gates[0] / (gates[0] + gates[1])
            torch.testing.assert_close(found[row, label], share * by_label + (1 - share) * own)
