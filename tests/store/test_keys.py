"""A study's records alone name the seed runs that its jobs will store."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sclsearch.encoders.gradient_cache import CHUNK, LIMIT
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.base import Rows, Splits, all_seeds
from sclsearch.store.records import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    seed_run_identity,
    seed_run_key,
)
from sclsearch.store.studies import StudyStore
from sclsearch.tasks.base import Task
from sclsearch.training.spec import ENGINE_VERSION, SeedRunSpec

PARTS = Splits(
    Rows("train", np.arange(8)),
    Rows("validation", np.arange(0, 6, 2)),
    Rows("validation", np.arange(1, 6, 2)),
    ("a note",),
)

# Another key means that every stored seed run is left behind; a new engine means it.
PINNED = {
    "ce": "1e0be0c1c934ef54e757db6b70491d16798a13c8b3a4e0d6199ec6161643fb99",
    "cssl": "2cf4c73ff1cb49933af5441fd175294c06dd0040ee68b5dd728ef5ef8f9b35c1",
}


@pytest.fixture(params=METHODS)
def spec(request: pytest.FixtureRequest) -> SeedRunSpec:
    return SeedRunSpec(
        task=Task("toy", "labels alone", ("no", "yes"), "accuracy"),
        data_digest="d" * 64,
        splits=PARTS,
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


@pytest.fixture
def store(tmp_path: Path, spec: SeedRunSpec) -> StudyStore:
    store = StudyStore(tmp_path, "toy")
    fields = resolved(spec.method, spec.training)
    names = dict.fromkeys(("task", "model", "protocol", "size"), "toy")
    identity = {**names, "space": {"parameters": []}}
    origin = {"rule": "mean", "notes": []}
    store.create(StudyRecord("toy", identity, spec.shared_identity, origin, 2, 0.0))
    store.add(ConfigurationRecord(0, {}, fields, "published"))
    store.add(ReplicateRecord(0, PARTS.digests, spec.replicate.seeds, PARTS.notes))
    return store


def test_records_read_again_give_the_key_of_the_job(store: StudyStore, spec: SeedRunSpec) -> None:
    study = store.record()
    assert study is not None
    records = study, store.configurations()[0], store.replicates()[0]
    assert seed_run_key(*records) == spec.key
    assert set(seed_run_identity(*records)) == set(spec.identity)


@pytest.mark.parametrize("spec", ["supcl-seq"], indirect=True)
def test_batches_that_go_in_chunks_have_no_other_key(spec: SeedRunSpec) -> None:
    splits = replace(PARTS, train=Rows("train", np.arange(200)))
    large = replace(spec, splits=splits, training=Training(batch_size=128, max_length=128))
    (contrast, _) = large.method.stages(large.training)
    assert contrast.views * 128 * 128 > LIMIT
    study = StudyRecord("large", {}, large.shared_identity, {}, 2, 0.0)
    fields = resolved(large.method, large.training)
    configuration = ConfigurationRecord(0, {}, fields, "published")
    replicate = ReplicateRecord(0, splits.digests, large.replicate.seeds, ())
    assert seed_run_key(study, configuration, replicate) == large.key


def test_the_chunks_of_large_batches_are_those_of_this_engine() -> None:
    assert (ENGINE_VERSION, LIMIT, CHUNK) == (6, 2**15, 2**13)


@pytest.mark.parametrize("spec", ["cssl"], indirect=True)
def test_records_say_which_paraphrases_a_replicate_reads(
    store: StudyStore, spec: SeedRunSpec
) -> None:
    reading = replace(spec, splits=replace(PARTS, paraphrases="p" * 64))
    store.add(ReplicateRecord(1, reading.splits.digests, spec.replicate.seeds, PARTS.notes))
    study = store.record()
    assert study is not None
    (configuration,), replicates = store.configurations(), store.replicates()
    found = [seed_run_key(study, configuration, replicate) for replicate in replicates]
    assert found == [spec.key, reading.key]
    assert spec.key != reading.key


@pytest.mark.parametrize("spec", PINNED, indirect=True)
def test_a_key_is_what_it_has_always_been(spec: SeedRunSpec) -> None:
    assert spec.key == PINNED[spec.method_name]
