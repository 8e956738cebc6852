"""Tests of removing a study's MLflow runs from the storage's database."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch import remove
from sclsearch.errors import SclsearchError
from sclsearch.store.studies import StudyStore
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.removal import delete_runs, tracked_run_ids
from sclsearch.tracking.server import prepare, tracking_uri
from tests.store.test_studies import RECORD
from tests.tracking.conftest import Write

pytestmark = pytest.mark.slow


@pytest.fixture
def tracked(tmp_path: Path, study: list[RunRecord], write: Write) -> StudyStore:
    """Return a stored study that is tracked in MLflow, like an earlier one with the same name."""
    store = StudyStore(tmp_path, RECORD.name)
    store.create(RECORD)
    write([replace(one, study=RECORD.mlflow_name) for one in study])
    write([replace(one, study=f"{RECORD.name}@other") for one in study[:2]])
    return store


def runs_left(client: Any) -> list[str]:
    experiment = client.get_experiment_by_name("sclsearch").experiment_id
    found = client.search_runs([experiment], max_results=5000)
    return [run.data.tags["sclsearch.id"] for run in found]


def test_runs_of_a_study_are_deleted(tmp_path: Path, tracked: StudyStore, shown: Any) -> None:
    ids = tracked_run_ids(tmp_path, tracked)
    assert len(ids) == 9
    delete_runs(tmp_path, ids)
    assert {name.partition("/")[0] for name in runs_left(shown.client)} == {"first@other"}
    assert tracked_run_ids(tmp_path, tracked) == []


def test_a_storage_folder_may_have_characters_that_are_special_in_a_uri(
    tmp_path: Path, write: Write
) -> None:
    storage = tmp_path / "50% of #1%20?"
    store = StudyStore(storage, RECORD.name)
    store.create(RECORD)
    uri = tracking_uri(None, storage)
    prepare(uri)
    write([RunRecord(RECORD.mlflow_name, artifacts={"space.json": "[1]"})], uri)
    assert [path.name for path in storage.rglob("space.json")] == ["space.json"]
    (run_id,) = tracked_run_ids(storage, store)
    delete_runs(storage, [run_id])
    assert tracked_run_ids(storage, store) == []
    assert {path.name for path in storage.iterdir()} == {"mlartifacts", "mlflow.db", "studies"}


def test_a_storage_without_a_database_has_no_runs(tmp_path: Path) -> None:
    store = StudyStore(tmp_path / "empty", RECORD.name)
    store.create(RECORD)
    assert tracked_run_ids(tmp_path / "empty", store) == []
    assert tracked_run_ids("s3://bucket/folder", store) == []
    delete_runs(tmp_path / "empty", [])


def test_a_damaged_database_is_named_and_nothing_is_deleted(tmp_path: Path) -> None:
    StudyStore(tmp_path, RECORD.name).create(RECORD)
    (tmp_path / "mlflow.db").write_bytes(b"no database at all")
    with pytest.raises(SclsearchError) as raised:
        remove(RECORD.name, storage=tmp_path)
    assert str(raised.value).startswith(f"sqlite:///{tmp_path}/mlflow.db: MLflow cannot read it: ")
    assert str(raised.value).endswith("file is not a database. Move the file away.")
    assert StudyStore(tmp_path, RECORD.name).record() == RECORD
