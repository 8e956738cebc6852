"""Tests of damaged model folders: the dry run and the search name the damaged file."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.conftest import Call

Change = Callable[[Path], object]
TUNE = ("tune", "--method", "scl", "--task", "demo", "--train-size", "20", "--gpus-per-trial", "0")
WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CODE = """
import pathlib
pathlib.Path(__file__).with_name("MARK").touch()
from transformers import BertConfig, BertModel
class C(BertConfig):
    model_type = "mine"
class M(BertModel):
    config_class = C
"""


def edited(name: str, fields: dict[str, Any]) -> Change:
    def change(folder: Path) -> None:
        read = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps({**read, **fields}), encoding="utf-8")

    return change


def config(**fields: Any) -> Change:
    return edited(CONFIG, fields)


def text(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def written(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})

    return written


def cut(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])


def pipe(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)


def more_tokens(folder: Path) -> None:
    model = json.loads((folder / TOKENIZER).read_text(encoding="utf-8"))["model"]
    model["vocab"]["beyond"] = 99_999
    edited(TOKENIZER, {"model": model})(folder)


def custom_code(folder: Path) -> None:
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    config(model_type="mine", auto_map={"AutoConfig": "code.C", "AutoModel": "code.M"})(folder)
    named = {"auto_map": {"AutoTokenizer": ["code.T", None]}, "tokenizer_class": "T"}
    edited(TOKENIZER_CONFIG, named)(folder)


DENSE = "encoder.layer.0.output.dense.weight"
CASES: dict[str, tuple[Change, str]] = {
    "quantization_config": (config(quantization_config={"bits": 4}), "quantization config"),
    "unknown type": (config(model_type="nonesuch"), "nonesuch"),
    "decoder": (config(is_decoder=True), "bert is like a decoder"),
    "pad_token_id beyond the vocabulary": (config(pad_token_id=9999), "Padding_idx"),
    "config cut": (text(CONFIG, '{"model_type": "be'), "config.json"),
    "hidden_size 0": (config(hidden_size=0), "hidden_size"),
    "hidden_size huge": (config(hidden_size=10**30), "size"),
    "more layers": (config(num_hidden_layers=3), "model.safetensors lacks"),
    "too many layers": (config(num_hidden_layers=20_000), "more than 5,000 modules"),
    "vocab_size huge": (config(vocab_size=10**9), "describes 24,000,"),
    "smaller vocab_size": (config(vocab_size=10), "shape"),
    "dropout 2": (config(hidden_dropout_prob=2.0), "dropout probability"),
    "attention": (config(attn_implementation="zzz"), "attn_implementation"),
    "weights LFS pointer": (text(WEIGHTS, "version https://git-lfs.github.com"), "header"),
    "weights cut": (cut, "not fully covered"),
    "weights missing": (lambda folder: (folder / WEIGHTS).unlink(), "model.safetensors"),
    "weights pipe": (pipe, "model.safetensors is not a regular file"),
    "weights lack a tensor": (weights(lambda read: read.pop(DENSE)), DENSE),
    "weights of another shape": (weights(lambda read: read.update({DENSE: torch.ones(3)})), DENSE),
    "weights NaN": (weights(lambda read: read[DENSE].fill_(torch.nan)), "NaN"),
    "tokenizer cut": (text(TOKENIZER, "{"), "tokenizer.json"),
    "tokenizer missing": (lambda folder: (folder / TOKENIZER).unlink(), "tokenizer.json"),
    "tokenizer beyond the embeddings": (more_tokens, "99999"),
    "tokenizer config null": (text(TOKENIZER_CONFIG, "null"), "tokenizer"),
    "custom code": (custom_code, "custom code"),
}


@pytest.fixture
def model(folder: Path, tiny_encoder: Path) -> Path:
    return shutil.copytree(tiny_encoder, folder / "model")


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_model_is_refused_before_anything_is_written(
    case: str, model: Path, sclsearch: Call
) -> None:
    change, word = CASES[case]
    change(model)
    sclsearch(*TUNE, "--model", "./model", "--dry-run").assert_refused("model", word)
    assert not (model / "MARK").exists()
    if case in {"weights NaN", "tokenizer beyond the embeddings", "tokenizer cut"}:
        sclsearch(*TUNE, "--model", "./model", "--tracking", "none").assert_refused(word)
        assert not list(Path("sclsearch-storage").glob("studies/*"))
