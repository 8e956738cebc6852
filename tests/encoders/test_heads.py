"""Tests of new modules by their formulas, and of the masked-LM head of a checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import (
    LabelSpecificAttention,
    WindowAttention,
    masked_lm_head,
    masked_lm_notes,
)
from sclsearch.encoders.load import load_encoder
from tests.conftest import SIZES, Save

LENGTHS = (6, 3, 1)
STATES = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(1))
"""States of three texts of 6, 3 and 1 tokens; padding has random states."""
MASK = torch.arange(6) < torch.tensor(LENGTHS)[:, None]
TOKENS = torch.where(MASK, torch.arange(5, 23).view(3, 6), 0)
LABELS = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


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


@pytest.fixture
def with_head(save_tiny: Save) -> Save:
    """Return a function that makes a tiny checkpoint of an architecture with a masked-LM head."""

    def with_head(architecture: str = "Bert", **sizes: Any) -> Path:
        folder = save_tiny(architecture, {**SIZES, **sizes})
        config = transformers.AutoConfig.from_pretrained(folder)
        torch.manual_seed(3)
        model: Any = getattr(transformers, f"{architecture}ForMaskedLM")(config)
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name.lower():
                torch.nn.init.normal_(parameter, mean=0.5)
        model.save_pretrained(folder)
        return folder

    return with_head


def logits(encoder: Encoder) -> Tensor:
    states = encoder.hidden(TOKENS, MASK, torch.zeros_like(TOKENS), (0.0,))
    return masked_lm_head(encoder).forward(states[MASK], encoder.embeddings)


@pytest.mark.parametrize(
    ("architecture", "activation"),
    [
        *(("Bert", "hidden_act"), ("Roberta", "hidden_act"), ("DistilBert", "activation")),
        *(("MPNet", ""), ("Electra", ""), ("ModernBert", "classifier_activation")),
    ],
)
def test_the_head_of_the_checkpoint_gives_the_logits_of_transformers(
    with_head: Save, architecture: str, activation: str
) -> None:
    for sizes in ({}, {activation: "relu"}) if activation else ({},):
        folder = with_head(architecture, **sizes)
        plain = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
        expected = plain(input_ids=TOKENS, attention_mask=MASK).logits[MASK]
        encoder = load_encoder(folder, "mine")
        torch.testing.assert_close(logits(encoder), expected)
        assert masked_lm_notes(encoder) == ()


def test_the_weight_names_of_2018_are_known(with_head: Save) -> None:
    folder = with_head()
    expected = logits(load_encoder(folder, "new"))
    renamed = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): weight
        for name, weight in load_file(folder / "model.safetensors").items()
    }
    save_file(renamed, folder / "model.safetensors", {"format": "pt"})
    torch.testing.assert_close(logits(load_encoder(folder, "old")), expected)


def test_a_head_of_another_shape_or_with_an_untied_decoder_counts_as_absent(
    with_head: Save,
) -> None:
    encoder = load_encoder(with_head("MobileBert", embedding_size=8), "mine")
    assert masked_lm_notes(encoder) != ()
    assert masked_lm_head(encoder).dense.weight.shape == (8, 16)
    folder = with_head()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    assert masked_lm_notes(load_encoder(folder, "mine")) != ()
