"""A study's records alone name the seed runs that its jobs will store."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sclsearch.encoders.gradient_cache import CHUNK, LIMIT
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.base import Parts, Rows
from sclsearch.protocols.replicates import all_seeds
from sclsearch.store.records import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    seed_run_identity,
    seed_run_key,
)
from sclsearch.store.studies import StudyStore
from sclsearch.tasks.base import Task
from sclsearch.training.job import ENGINE_VERSION, Job

PARTS = Parts(
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
def job(request: pytest.FixtureRequest) -> Job:
    return Job(
        task=Task("toy", "labels alone", ("no", "yes"), "accuracy"),
        data_digest="d" * 64,
        parts=PARTS,
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
def store(tmp_path: Path, job: Job) -> StudyStore:
    store = StudyStore(tmp_path, "toy")
    fields = resolved(job.method, job.training)
    names = dict.fromkeys(("task", "model", "protocol", "size"), "toy")
    identity = {**names, "space": {"parameters": []}}
    origin = {"rule": "mean", "notes": []}
    store.create(StudyRecord("toy", identity, job.shared_identity, origin, 2, 0.0))
    store.add(ConfigurationRecord(0, {}, fields, "published"))
    store.add(ReplicateRecord(0, PARTS.digests, job.replicate.seeds, PARTS.notes))
    return store


def test_records_read_again_give_the_key_of_the_job(store: StudyStore, job: Job) -> None:
    study = store.record()
    assert study is not None
    records = study, store.configurations()[0], store.replicates()[0]
    assert seed_run_key(*records) == job.key
    assert set(seed_run_identity(*records)) == set(job.identity)


@pytest.mark.parametrize("job", ["supcl-seq"], indirect=True)
def test_batches_that_go_in_chunks_have_no_other_key(job: Job) -> None:
    parts = replace(PARTS, train=Rows("train", np.arange(200)))
    large = replace(job, parts=parts, training=Training(batch_size=128, max_length=128))
    (contrast, _) = large.method.stages(large.training)
    assert contrast.views * 128 * 128 > LIMIT
    study = StudyRecord("large", {}, large.shared_identity, {}, 2, 0.0)
    fields = resolved(large.method, large.training)
    configuration = ConfigurationRecord(0, {}, fields, "published")
    replicate = ReplicateRecord(0, parts.digests, large.replicate.seeds, ())
    assert seed_run_key(study, configuration, replicate) == large.key


def test_the_chunks_of_large_batches_are_those_of_this_engine() -> None:
    assert (ENGINE_VERSION, LIMIT, CHUNK) == (6, 2**15, 2**13)


@pytest.mark.parametrize("job", ["cssl"], indirect=True)
def test_records_say_which_paraphrases_a_replicate_reads(store: StudyStore, job: Job) -> None:
    reading = replace(job, parts=replace(PARTS, paraphrases="p" * 64))
    store.add(ReplicateRecord(1, reading.parts.digests, job.replicate.seeds, PARTS.notes))
    study = store.record()
    assert study is not None
    (configuration,), replicates = store.configurations(), store.replicates()
    found = [seed_run_key(study, configuration, replicate) for replicate in replicates]
    assert found == [job.key, reading.key]
    assert job.key != reading.key


@pytest.mark.parametrize("job", PINNED, indirect=True)
def test_a_key_is_what_it_has_always_been(job: Job) -> None:
    assert job.key == PINNED[job.method_name]
