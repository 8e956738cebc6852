"""Tests of the engine with a tiny encoder of each family."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sclsearch.encoders.load import load_encoder
from sclsearch.training.engine import train
from sclsearch.training.evaluation import save_tensors
from tests.conftest import Save
from tests.tiny import SIZES
from tests.training.conftest import Rebuilt, WorkFor

T5 = {**SIZES, "num_layers": 2, "num_heads": 2, "d_model": 16, "d_kv": 8, "d_ff": 32}
ONE_SEGMENT = {**SIZES, "type_vocab_size": 1}
DISENTANGLED = {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
FAMILIES: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("Bert", "DistilBert", "Albert", "Electra", "MPNet", "FNet"), SIZES),
    **dict.fromkeys(("ModernBert", "NomicBert", "EuroBert", "JinaEmbeddingsV3"), SIZES),
    **dict.fromkeys(("Roberta", "XLMRoberta"), ONE_SEGMENT),
    **dict.fromkeys(("Deberta", "DebertaV2"), DISENTANGLED),
    **dict.fromkeys(("T5", "T5Encoder", "UMT5"), T5),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_trains_with_each_method(
    family: str, save_tiny: Save, work_for: WorkFor, rebuilt: Rebuilt, tmp_path: Path
) -> None:
    folder = save_tiny(family, FAMILIES[family])
    before = load_encoder(folder, family).state_dict()
    for method in ("ce", "scl", "supcl-seq", "lacon"):
        work = work_for(method, epochs=1, model=folder)
        rows = replace(work.spec.splits.train, index=work.spec.splits.train.index[:16])
        result = train(*work.but(splits=replace(work.spec.splits, train=rows)))
        after = {name: result.weights[f"encoder.{name}"] for name in before}
        assert any(not torch.equal(before[name], weight) for name, weight in after.items())
        assert all(weight.isfinite().all() for weight in result.weights.values())
        save_tensors(tmp_path / method, result.weights, {})
        rebuilt(work, result)
