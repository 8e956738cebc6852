"""A study's records alone name the seed runs that its jobs will store."""

from pathlib import Path

import numpy as np
import pytest

from sclsearch.methods import METHODS, method_class
from sclsearch.methods.base import Training
from sclsearch.methods.fields import resolved
from sclsearch.protocols.base import Parts, Rows
from sclsearch.protocols.replicates import all_seeds
from sclsearch.store.studies import (
    ConfigurationRecord,
    ReplicateRecord,
    StudyRecord,
    StudyStore,
    seed_run_identity,
    seed_run_key,
)
from sclsearch.tasks.base import Task
from sclsearch.training.job import Job

PARTS = Parts(
    Rows("train", np.arange(8)),
    Rows("validation", np.arange(0, 6, 2)),
    Rows("validation", np.arange(1, 6, 2)),
    ("a note",),
)

# Another key means that every stored seed run is left behind; a new engine means it.
PINNED = {
    "ce": "54f1b0450fe90a2579a2a42efbfdb7a9836a0d45986d61a04efe1acfd07d7931",
    "cssl": "d097d19d5f7f40831c513dfadbe8e0bccb2f2f58f59a27069d74fdfbbc42ba12",
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
    store.create(StudyRecord("toy", {"task": "toy"}, job.shared_identity, {}, 2, 0.0))
    store.add(ConfigurationRecord(0, {}, fields, "published"))
    store.add(ReplicateRecord(0, PARTS.digests, job.replicate.seeds, PARTS.notes))
    return store


def test_records_read_again_give_the_key_of_the_job(store: StudyStore, job: Job) -> None:
    study = store.record()
    assert study is not None
    records = study, store.configurations()[0], store.replicates()[0]
    assert seed_run_key(*records) == job.key
    assert set(seed_run_identity(*records)) == set(job.identity)


@pytest.mark.parametrize("job", PINNED, indirect=True)
def test_a_key_is_what_it_has_always_been(job: Job) -> None:
    assert job.key == PINNED[job.method_name]
