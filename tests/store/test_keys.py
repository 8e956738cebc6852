"""Tests of seed run keys: pinned values, and equal keys from records and specifications."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sclsearch.encoders.savings import CHUNK, LIMIT
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.base import Rows, Splits, all_seeds
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyStore,
    seed_run_key,
)
from sclsearch.tasks.base import Task
from sclsearch.training.data import GPU_WIDTHS
from sclsearch.training.evaluation import GPU_TOKENS
from sclsearch.training.spec import ENGINE_VERSION, GPU_ENGINE_VERSION, SeedRunSpec
from tests.studies import RECORD

# Stored seed runs are found by these keys; only a new engine version may change them.
PINNED = {
    "ce": "0933d0474378191b4706143fda64b9783377884ee8e04a65bb00bf67ffabf948",
    "cssl": "391acc3813f343a5b6e1ee8f1d1afc68c5265d43647ebf0d94ce61b79b2a3734",
}


@pytest.fixture(params=METHODS)
def spec(request: pytest.FixtureRequest) -> SeedRunSpec:
    return SeedRunSpec(
        task=Task("toy", "labels alone", ("no", "yes"), "accuracy"),
        data_digest="d" * 64,
        splits=Splits(
            Rows("train", np.arange(8)),
            Rows("validation", np.arange(0, 6, 2)),
            Rows("validation", np.arange(1, 6, 2)),
            ("a note",),
        ),
        metric="accuracy",
        evaluate=20,
        keep="best",
        method_name=request.param,
        method=method_class(request.param)(),
        training=Training(learning_rate=0.1 + 0.2),
        replicate=all_seeds(3),
        model_name="tiny",
        model=Path("tiny"),
        model_digest="e" * 64,
        numerics="cpu-fp32",
    )


def test_records_read_from_disk_give_the_pinned_key_of_the_specification(
    tmp_path: Path, spec: SeedRunSpec
) -> None:
    store = StudyStore(tmp_path, "first")
    store.create(replace(RECORD, training=spec.shared_identity))
    store.add(ConfigurationRecord(0, {}, resolved(spec.method, spec.training), "published"))
    store.add(ReplicateRecord(0, spec.splits.digests, spec.replicate.seeds, spec.splits.notes))
    study = store.record()
    assert study is not None
    records = study, store.configurations()[0], store.replicates()[0]
    assert seed_run_key(*records) == spec.key == PINNED.get(spec.method_name, spec.key)


def test_batch_sizes_match_the_engine_versions() -> None:
    assert (ENGINE_VERSION, LIMIT, CHUNK) == (7, 2**15, 2**13)
    assert (GPU_ENGINE_VERSION, GPU_WIDTHS, GPU_TOKENS) == (8, 32, 2**15)
