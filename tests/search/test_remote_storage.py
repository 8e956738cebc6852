"""Test of an object store: a search stores the same there as in a folder, and resumes."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from sclsearch.store.storage import StoragePath, read, storage_path
from sclsearch.tasks.custom import CustomTask
from tests.in_process import in_process
from tests.workspace import Call

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

TIMED = ("started", "seconds", "environment", "sha256")


def contents(storage: StoragePath, kind: str) -> dict[str, Any]:
    """Return the stored objects of a kind, without times and environment."""
    folder = storage / kind
    objects = {name: read(folder / name) for name in folder.names() if name.endswith(".json")}
    return {
        name: {field: value for field, value in one.items() if field not in TIMED}
        for name, one in objects.items()
        if isinstance(one, dict)
    }


def weights(storage: StoragePath) -> dict[str, dict[str, Any]]:
    """Return the tensors of each file, because the order of a file's header is random."""
    folder = storage / "studies" / "s" / "weights"
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
    near, far = storage_path(here), storage_path(there)
    assert len(contents(far, "runs")) == 4
    for kind in ("runs", "studies/s/configurations", "studies/s/replicates"):
        assert contents(far, kind) == contents(near, kind) != {}
    assert weights(far) == weights(near) != {}
    assert (far / "studies" / "s").names() == (near / "studies" / "s").names()
    before = {name: (far / "runs" / name).read() for name in (far / "runs").names()}
    _, err = command(*tune, "--storage", there, "--tracking", "none")
    assert err == ""  # a search that trains nothing prints no progress
    assert before == {name: (far / "runs" / name).read() for name in (far / "runs").names()}
    assert [path.name for path in tmp_path.iterdir()] == ["storage"]

    shown = [
        json.loads(command("show", "s", "--storage", storage, "--format", "json")[0])
        for storage in (here, there)
    ]
    seeds = [seed for one in shown for line in one["configurations"] for seed in line["seeds"]]
    for seed in seeds:
        seed.pop("seconds")
    assert seeds[:4] == seeds[4:]
    key = seeds[0]["key"]
    assert f"{key[:12]} is identical in every" in command("rerun", key[:10], "--storage", there)[0]
