"""Test of an object store: a search stores the same there as in a folder, and resumes."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from sclsearch.store.runs import RunStore
from sclsearch.store.storage import StoragePath, storage_path
from sclsearch.store.studies import StudyStore
from sclsearch.tasks.custom import CustomTask
from tests.in_process import in_process
from tests.workspace import Call

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

TIMED = ("started", "seconds", "environment")


def results(storage: str) -> dict[str, Any]:
    """Return every stored seed run, without times and environment, by key."""
    runs = RunStore(storage).all()
    return {run.key: {n: v for n, v in asdict(run).items() if n not in TIMED} for run in runs}


def weights(folder: StoragePath) -> dict[str, Any]:
    """Return the tensors of each file, because the order of a file's header is random."""
    files = {name: (folder / name).read() or b"" for name in folder.names()}
    return {
        name: {n: tensor.tolist() for n, tensor in load(content).items()}
        for name, content in files.items()
    }


def test_a_folder_and_an_object_store_hold_the_same(
    toy: CustomTask, tiny_bert: Path, space_file: Path, sclsearch: Call, bucket: str, tmp_path: Path
) -> None:
    def command(*arguments: str) -> tuple[str, str]:
        result = sclsearch(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    tune = [
        *("tune", "--method", "scl", "--task", str(toy.path), "--text", "text", "--label", "label"),
        *("--split-column", "split", "--model", str(tiny_bert), "--space", str(space_file)),
        *("--configs", "2", "--seeds", "2", "--concurrency", "1", "--gpus-per-trial", "0"),
        *("--study", "s"),
    ]
    here, there = str(tmp_path / "storage"), f"{bucket}/team/storage"
    with in_process():
        command(*tune, "--storage", here, "--tracking", "none")
    out, err = command(*tune, "--storage", there)
    assert "MLflow: an object store holds no database" in err
    assert f"weights {there}/studies/s/weights: " in out
    assert len(results(there)) == 4
    assert results(there) == results(here)
    near, far = (storage_path(storage) / "studies" / "s" for storage in (here, there))
    assert weights(far / "weights") == weights(near / "weights") != {}
    assert far.names() == near.names()
    near_study, far_study = (StudyStore(storage, "s") for storage in (here, there))
    assert far_study.configurations() == near_study.configurations()
    assert far_study.replicates() == near_study.replicates()
    before = [*RunStore(there).all()]
    _, err = command(*tune, "--storage", there, "--tracking", "none")
    assert err == ""  # a search that trains nothing prints no progress
    assert [*RunStore(there).all()] == before
    assert [path.name for path in tmp_path.iterdir()] == ["storage"]
    key = min(results(there))
    assert f"{key[:12]} is identical in every" in command("rerun", key[:10], "--storage", there)[0]
