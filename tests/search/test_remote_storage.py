"""Tests of an object store: a search stores the same there as in a folder, and resumes."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from sclsearch.store.runs import RunStore
from sclsearch.store.storage import StoragePath, read, storage_path
from sclsearch.tasks.custom import CustomTask
from tests.in_process import in_process
from tests.workspace import Call

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

TIMED = ("started", "seconds", "environment")
Command = Callable[..., tuple[str, str]]


@pytest.fixture
def command(sclsearch: Call) -> Command:
    """Return a function that runs a command and returns its output and errors."""

    def command(*arguments: str) -> tuple[str, str]:
        result = sclsearch(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    return command


@pytest.fixture
def tune(toy: CustomTask, tiny_bert: Path, space_file: Path) -> list[str]:
    """Return the arguments of a search of two configurations with two seeds each."""
    return [
        *("tune", "--method", "scl", "--task", str(toy.path), "--text", "text", "--label", "label"),
        *("--split-column", "split", "--model", str(tiny_bert), "--space", str(space_file)),
        *("--configs", "2", "--seeds", "2", "--concurrency", "1", "--gpus-per-trial", "0"),
        *("--study", "s"),
    ]


def seed_runs(storage: StoragePath) -> dict[str, dict[str, Any]]:
    """Return every stored seed run without times and environment."""
    runs = RunStore(str(storage)).all()
    return {run.key: {n: v for n, v in asdict(run).items() if n not in TIMED} for run in runs}


def records(storage: StoragePath, kind: str) -> list[Any]:
    folder = storage / "studies" / "s" / kind
    return [(name, read(folder / name)) for name in folder.names()]


def weights(storage: StoragePath) -> dict[str, dict[str, Any]]:
    """Return the tensors of each file, because the order of a file's header is random."""
    folder = storage / "studies" / "s" / "weights"
    tensors = {}
    for name in folder.names():
        path = folder / name
        content = path.read()
        assert content is not None
        tensors[name] = {n: tensor.tolist() for n, tensor in load(content).items()}
    return tensors


def test_a_folder_and_an_object_store_hold_the_same(
    tune: list[str], command: Command, bucket: str, tmp_path: Path
) -> None:
    here, there = str(tmp_path / "storage"), f"{bucket}/team/storage"
    with in_process():
        command(*tune, "--storage", here, "--tracking", "none")
    out, err = command(*tune, "--storage", there)
    assert "MLflow: an object store holds no database" in err
    assert "The same command completes it." in err
    assert f"weights {there}/studies/s/weights: " in out
    near, far = storage_path(here), storage_path(there)
    assert len(seed_runs(far)) == 4
    assert seed_runs(far) == seed_runs(near)
    for kind in ("configurations", "replicates"):
        assert records(far, kind) == records(near, kind)
    assert weights(far) == weights(near) != {}
    assert (far / "studies" / "s").names() == (near / "studies" / "s").names()
    before = {name: read(far / "runs" / name) for name in (far / "runs").names()}
    _, err = command(*tune, "--storage", there, "--tracking", "none")
    assert err == ""  # a search that trains nothing prints no progress
    assert before == {name: read(far / "runs" / name) for name in (far / "runs").names()}
    assert [path.name for path in tmp_path.iterdir()] == ["storage"]
    check_reading_commands(command, here, there)


def check_reading_commands(command: Command, here: str, there: str) -> None:
    rankings = [
        json.loads(command("show", "s", "--storage", storage, "--format", "json")[0])
        for storage in (here, there)
    ]
    assert [ranking.pop("storage") for ranking in rankings] == [here, there]
    verdicts = [ranking.pop("verdict")["sentence"] for ranking in rankings]
    assert verdicts[0] == verdicts[1]  # their commands name the storage
    kept = [ranking.pop("weights") for ranking in rankings]
    for ranking in rankings:
        for line in (*ranking["configurations"], *ranking["baselines"]):
            for seed in line["seeds"]:
                seed.pop("seconds")
    assert rankings[0] == rankings[1]
    assert {*kept[0]} == {*kept[1]}
    assert command("ls", "studies", "--storage", there)[0].startswith("s\tscl on toy")
    key = rankings[1]["configurations"][0]["seeds"][0]["key"]
    out, _ = command("rerun", key[:10], "--storage", there)
    assert f"{key[:12]} is identical in every number" in out
