"""Tests of loading encoders and tokenizers, and of the errors for unsupported ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.errors import SclsearchError
from tests.conftest import Save
from tests.tiny import SIZES


@pytest.fixture
def broken(tiny_bert: Path, tmp_path: Path) -> Path:
    """Return a copy of the tiny BERT, for damage."""
    return shutil.copytree(tiny_bert, tmp_path / "broken")


def test_each_encoder_is_a_new_copy_in_evaluation_mode(tiny_bert: Path) -> None:
    first, second = (load_encoder(tiny_bert, "tiny") for _ in range(2))
    assert not first.training
    with torch.no_grad():
        next(first.parameters()).zero_()
    assert next(second.parameters()).any()


def test_a_changed_file_is_read_again(broken: Path) -> None:
    first = load_encoder(broken, "tiny")
    weights = load_file(broken / "model.safetensors")
    save_file({name: 2 * one for name, one in weights.items()}, broken / "model.safetensors")
    second = load_encoder(broken, "tiny")
    assert torch.equal(next(second.parameters()), 2 * next(first.parameters()))


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


def test_decoders_are_refused(broken: Path, save_tiny: Save) -> None:
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps({**config, "is_decoder": True}))
    # OPT has dropout with fixed rates too; the error must name the decoder.
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32}
    opt = save_tiny("OPT", {**sizes, "word_embed_proj_dim": 16})
    for kind, folder in (("bert", broken), ("opt", opt)):
        with pytest.raises(SclsearchError, match=rf"^--model m: {kind} is a decoder\. Choose"):
            load_encoder(folder, "m")


def test_encoders_with_fixed_dropout_rates_are_refused(save_tiny: Save) -> None:
    folder = save_tiny("XLM", {"n_words": 100, "emb_dim": 16, "n_layers": 2, "n_heads": 2})
    with pytest.raises(SclsearchError, match=r"^--model x: xlm has dropout with fixed rates"):
        load_encoder(folder, "x")
    config = json.loads((folder / "config.json").read_text())
    still = {**config, "dropout": 0.0, "attention_dropout": 0.0}
    (folder / "config.json").write_text(json.dumps(still))
    assert load_encoder(folder, "still").noise_free


@pytest.mark.parametrize("architecture", ["FNet", "ConvBert", "Yoso"])
def test_encoders_whose_states_depend_on_padding_have_a_note(
    save_tiny: Save, architecture: str
) -> None:
    (note,) = load_encoder(save_tiny(architecture), "m").notes
    assert note.endswith("scores of a text change with the padding of its batch")
    assert load_encoder(save_tiny("Bert"), "bert").notes == ()


def test_an_encoder_that_fails_in_the_capability_check_is_refused(save_tiny: Save) -> None:
    folder = save_tiny("Nystromformer", {**SIZES, "num_landmarks": 4})
    with pytest.raises(SclsearchError, match=r"^--model m: nystromformer must encode a text of"):
        load_encoder(folder, "m")


def test_an_encoder_with_adapters_per_row_keeps_its_padding(save_tiny: Save) -> None:
    languages = {"languages": ["en_XX"], "default_language": "en_XX"}
    assert not load_encoder(save_tiny("Xmod", {**SIZES, **languages}), "m").can_pack


def test_the_tokenizer_adds_special_tokens_and_segments(encoder: Encoder) -> None:
    tokenizer = load_tokenizer(Path(str(encoder.model.name_or_path)))
    found: Any = tokenizer("good", "bad film", return_token_type_ids=True)
    tokens = tokenizer.convert_ids_to_tokens(found["input_ids"])
    assert tokens == ["[CLS]", "good", "[SEP]", "bad", "film", "[SEP]"]
    assert found["token_type_ids"] == [0, 0, 0, 1, 1, 1]
