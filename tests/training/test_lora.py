"""Tests of LoRA: adapters alone train and are stored, and a merged encoder predicts the same."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import sclsearch
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.lora import ADAPTER, check_lora, merged
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Model
from sclsearch.reports.page.winner import embed_test_rows
from sclsearch.store.runs import RunStore
from sclsearch.study.restore import restore_seed_run
from sclsearch.training.device import Backend
from sclsearch.training.engine import train
from sclsearch.training.evaluation import evaluate_rows
from tests.conftest import SIZES, Save
from tests.made_up import study_on
from tests.training.conftest import WorkFor

RANK = 3
CPU = torch.device("cpu")


def test_every_method_stores_adapter_and_new_modules_and_their_merge_predicts_the_same(
    work_for: WorkFor, method: str
) -> None:
    work = work_for(method, lora_rank=RANK)
    spec, result = work.spec, train(*work)
    names = {name for name in result.weights if name.startswith("encoder.")}
    assert names == {name for name in names if ADAPTER in name} != set()
    first = [w for name, w in result.weights.items() if name.endswith("lora_A.default.weight")]
    assert {len(weight) for weight in first} == {RANK}

    pretrained = load_encoder(spec.model, "tiny")
    whole = merged(result.weights, spec.model, "tiny")
    before = {f"encoder.{name}": weight for name, weight in pretrained.state_dict().items()}
    changed = {name for name in before if not torch.equal(before[name], whole[name])}
    linear = {name for name, part in pretrained.named_modules() if type(part) is torch.nn.Linear}
    assert set() < changed <= {f"encoder.{name}.weight" for name in linear}

    model = Model(pretrained, spec.stages[-1].new_modules(pretrained, len(spec.task.labels)))
    model.load_state_dict(whole)
    for rows in ("validation", "test"):
        _, _, found = evaluate_rows(*work, spec.splits.rows[rows], model.eval(), None, Backend(CPU))
        np.testing.assert_allclose(found, result.probabilities[rows], atol=1e-4)


def test_an_adapter_begins_at_the_pretrained_encoder_and_depends_on_its_seed(
    work_for: WorkFor,
) -> None:
    def trained(number: int, **changes: Any) -> Any:
        return train(*work_for("ce", number, lora_rank=RANK, **changes))

    # B starts at zero, so an adapter changes nothing before the first update.
    still = train(*work_for("ce", learning_rate=1e-9))
    one, same, other = (trained(number, learning_rate=1e-9) for number in (0, 0, 1))
    np.testing.assert_allclose(
        one.probabilities["test"], still.probabilities["test"], rtol=0, atol=1e-5
    )
    name = next(name for name in one.weights if name.endswith("lora_A.default.weight"))
    assert torch.equal(one.weights[name], same.weights[name])
    assert not torch.equal(one.weights[name], other.weights[name])


@pytest.mark.slow
def test_a_search_with_minilm_stores_a_small_file_and_exports_a_merged_encoder(
    minilm: Path, tmp_path: Path
) -> None:
    fixed = {"lora_rank": 8, "epochs": 2, "pooling": "head_hidden"}
    storage = study_on(minilm, tmp_path / "storage", method="ce", seeds=1, settings=fixed)
    (file,) = storage.glob("studies/mine/weights/*")
    assert file.stat().st_size < 3e6
    exported = tmp_path / "model"
    sclsearch.export("mine", exported, storage=storage, force=True)
    # The export has compared the predictions of test rows with those of the search.
    found, before = (load_file(one / "model.safetensors") for one in (exported, minilm))
    query = "encoder.layer.0.attention.self.query.weight"
    update = found[f"bert.{query}"] - before[query]
    assert 0 < torch.linalg.matrix_rank(update, rtol=1e-4) <= 8
    assert torch.equal(
        found["bert.embeddings.word_embeddings.weight"],
        before["embeddings.word_embeddings.weight"],
    )
    (run,) = RunStore(storage).all()
    drawn = embed_test_rows(*restore_seed_run(run), load_file(file))
    assert np.isfinite(drawn.values).all()


def test_a_missing_peft_is_an_error_before_the_training(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(SclsearchError, match=r"pip install 'sclsearch\[lora\]'"):
        study_on(tiny_bert, tmp_path, settings={"lora_rank": 2})


@pytest.mark.parametrize("family", ["SqueezeBert", "IBert"])
def test_an_encoder_without_linear_modules_in_its_layers_is_refused(
    save_tiny: Save, family: str
) -> None:
    folder = save_tiny(family, {**SIZES, "embedding_size": SIZES["hidden_size"]})
    with pytest.raises(SclsearchError, match=r"^lora_rank: the layers of \w+bert have no linear"):
        check_lora(load_encoder(folder, family))
