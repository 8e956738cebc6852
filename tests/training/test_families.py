"""Tests of the engine with a tiny encoder of each family: it trains, or names the reason."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError
from sclsearch.training.engine import train
from sclsearch.training.evaluation import save_tensors
from tests.conftest import Save
from tests.tiny import SIZES
from tests.training.conftest import Rebuilt, WorkFor

HEADS = {"num_layers": 2, "num_heads": 2, "d_model": 16}
T5 = {**SIZES, **HEADS, "d_kv": 8, "d_ff": 32}
BART = {**SIZES, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
GPT2 = {name: size for name, size in SIZES.items() if name != "pad_token_id"}
ONE_SEGMENT = {**SIZES, "type_vocab_size": 1}
DISENTANGLED = {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
FAMILIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **dict.fromkeys(("Bert", "DistilBert", "Albert", "Electra", "MPNet", "FNet"), SIZES),
        **dict.fromkeys(("ModernBert", "NomicBert", "EuroBert", "JinaEmbeddingsV3"), SIZES),
        **dict.fromkeys(("Roberta", "XLMRoberta"), ONE_SEGMENT),
        **dict.fromkeys(("Deberta", "DebertaV2"), DISENTANGLED),
        **dict.fromkeys(("T5", "T5Encoder", "UMT5"), T5),
    }
)
REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = MappingProxyType(
    {
        "GPT2": (GPT2, "gpt2 is a decoder"),
        "ModernBertDecoder": (SIZES, "modernbert-decoder is a decoder"),
        "Qwen3": ({**SIZES, "head_dim": 8, "num_key_value_heads": 2}, "qwen3 is a decoder"),
        "Bart": (BART, "bart has a decoder"),
        "Longformer": (SIZES, "longformer has dropout with fixed rates"),
    }
)
METHODS = ("ce", "scl", "supcl-seq", "lacon")


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_trains_with_each_method(
    family: str, save_tiny: Save, work_for: WorkFor, rebuilt: Rebuilt, tmp_path: Path
) -> None:
    folder = save_tiny(family, FAMILIES[family])
    before = load_encoder(folder, family).state_dict()
    for method in METHODS:
        work = work_for(method, epochs=1, model=folder)
        rows = replace(work.spec.splits.train, index=work.spec.splits.train.index[:16])
        splits = replace(work.spec.splits, train=rows)
        result = train(*work._replace(spec=replace(work.spec, splits=splits)))
        after = {name: result.weights[f"encoder.{name}"] for name in before}
        assert any(not torch.equal(before[name], weight) for name, weight in after.items())
        assert all(weight.isfinite().all() for weight in result.weights.values())
        save_tensors(tmp_path / method, result.weights, {})
        rebuilt(work, result)


@pytest.mark.parametrize("family", REFUSED)
def test_other_families_are_refused_in_one_line_before_the_first_update(
    family: str, save_tiny: Save, work_for: WorkFor
) -> None:
    sizes, reason = REFUSED[family]
    work = work_for(model=save_tiny(family, sizes))
    with pytest.raises(SclsearchError, match=rf"^--model tiny: {reason}\. [^\n]+\.$"):
        train(*work)
