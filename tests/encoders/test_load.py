"""Tests of loading encoders, and of the errors for unsupported ones."""

from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from tests.conftest import Save
from tests.tiny import SIZES

OPT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32}
XLM = {"n_words": 100, "emb_dim": 16, "n_layers": 2, "n_heads": 2}
REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "GPT2": ({name: n for name, n in SIZES.items() if name != "pad_token_id"}, "is a decoder"),
    "ModernBertDecoder": (SIZES, "is a decoder"),
    "Qwen3": ({**SIZES, "head_dim": 8, "num_key_value_heads": 2}, "is a decoder"),
    # OPT has dropout with fixed rates too; the error must name the decoder.
    "OPT": ({**OPT, "word_embed_proj_dim": 16}, "is a decoder"),
    "Bart": ({**SIZES, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}, "has a decoder"),
    "Longformer": (SIZES, "has dropout with fixed rates"),
    "XLM": (XLM, "has dropout with fixed rates"),
    "Nystromformer": ({**SIZES, "num_landmarks": 4}, "must encode a text of any length"),
}


@pytest.mark.parametrize("family", REFUSED)
def test_other_families_are_refused_in_one_line(family: str, save_tiny: Save) -> None:
    sizes, reason = REFUSED[family]
    with pytest.raises(SclsearchError, match=rf"^--model m: [-\w]+ {reason}[^\n]+\.$"):
        load_encoder(save_tiny(family, sizes), "m")


def test_an_encoder_whose_fixed_dropout_rates_are_0_is_loaded(save_tiny: Save) -> None:
    still = {"dropout": 0.0, "attention_dropout": 0.0}
    assert load_encoder(save_tiny("XLM", {**XLM, **still}), "still").noise_free


def test_each_encoder_is_a_new_copy_of_the_current_file_in_evaluation_mode(
    tiny_bert: Path, tmp_path: Path
) -> None:
    folder = copytree(tiny_bert, tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    first = load_encoder(folder, "tiny")
    assert not first.training
    with torch.no_grad():
        next(first.parameters()).zero_()
    second = load_encoder(folder, "tiny")
    assert next(second.parameters()).any()
    save_file({name: 2 * one for name, one in weights.items()}, folder / "model.safetensors")
    third = load_encoder(folder, "tiny")
    assert torch.equal(next(third.parameters()), 2 * next(second.parameters()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_weights_are_loaded_as_float32(
    tiny_bert: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    half = AutoModel.from_pretrained(tiny_bert).to(dtype)
    half.save_pretrained(tmp_path)
    assert load_file(tmp_path / "model.safetensors")["pooler.dense.weight"].dtype == dtype
    found = load_encoder(tmp_path, "half").model.state_dict()
    for name, weight in half.state_dict().items():
        assert found[name].dtype == torch.float32
        assert torch.equal(found[name], weight.float())


@pytest.mark.parametrize("architecture", ["FNet", "ConvBert", "Yoso"])
def test_encoders_whose_states_depend_on_padding_have_a_note(
    save_tiny: Save, architecture: str
) -> None:
    (note,) = load_encoder(save_tiny(architecture), "m").notes
    assert note.endswith("scores of a text change with the padding of its batch")
    assert load_encoder(save_tiny("Bert"), "bert").notes == ()
