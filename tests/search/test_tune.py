"""Tests of `tune`: signals, a second driver, and an object store instead of a folder."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from sclsearch.store.runs import RunStore
from sclsearch.store.storage import StoragePath, storage_path
from sclsearch.tasks.custom import CustomTask
from tests.conftest import Call
from tests.processes import PATIENCE, Processes, wait_for
from tests.studies import in_process

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def tune(toy: CustomTask, tiny_bert: Path, space_file: Path) -> list[str]:
    """Return the arguments of a search with two seeds per configuration."""
    return [
        *("tune", "--method", "scl", "--task", str(toy.path), "--text", "text", "--label", "label"),
        *("--split-column", "split", "--model", str(tiny_bert), "--space", str(space_file)),
        *("--seeds", "2", "--gpus-per-trial", "0", "--study", "s"),
    ]


def test_a_second_driver_is_refused_and_sigterm_ends_the_first_in_order(
    tune: list[str], processes: Processes, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "sclsearch", *tune, "--configs=1", "--concurrency=2"]
    command += [f"--storage={tmp_path / 'storage'}", "--tracking=none", "--set=epochs=100000"]
    environment = {**os.environ, **processes.environment}
    piped: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    start = partial(
        subprocess.Popen[str], command, **piped, text=True, env=environment, start_new_session=True
    )
    first = start()
    wait_for("a trial", lambda: processes.named("ray::ImplicitFunc.train"))
    second = start()
    _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert f"s: process {first.pid} on" in err

    begun = time.monotonic()
    os.killpg(first.pid, signal.SIGTERM)  # `timeout` and Slurm signal the group
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130, err
    assert time.monotonic() - begun < 60
    assert "Traceback" not in err
    assert err.count("Stopped: 0 of 2 seed runs. Run the same command") == 1
    assert "No configuration is finished yet." in out
    assert not [*(tmp_path / "storage" / "studies" / "s").glob("driver*")]
    wait_for("the end of Ray's processes", lambda: not processes.titles())


def weights(folder: StoragePath) -> dict[str, Any]:
    """Return the tensors of each file, because the order of a file's header is random."""
    files = {name: (folder / name).read() or b"" for name in folder.names()}
    return {
        name: {n: tensor.tolist() for n, tensor in load(content).items()}
        for name, content in files.items()
    }


def test_a_folder_and_an_object_store_hold_the_same(
    tune: list[str], sclsearch: Call, bucket: str, tmp_path: Path
) -> None:
    def command(*arguments: str) -> tuple[str, str]:
        result = sclsearch(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    tune += ["--configs=2", "--concurrency=1"]
    here, there = str(tmp_path / "storage"), f"{bucket}/team/storage"
    with in_process():
        command(*tune, "--storage", here, "--tracking", "none")
    _, err = command(*tune, "--storage", there)
    assert "MLflow: an object store holds no database" in err
    before = [*RunStore(there).all()]
    evaluations = {run.key: run.evaluations for run in before}
    assert len(evaluations) == 4
    assert evaluations == {run.key: run.evaluations for run in RunStore(here).all()}
    near, far = (storage_path(storage) / "studies" / "s" for storage in (here, there))
    assert weights(far / "weights") == weights(near / "weights") != {}
    assert far.names() == near.names()
    _, err = command(*tune, "--storage", there, "--tracking", "none")
    assert err == ""  # a search that trains nothing prints no progress
    assert [*RunStore(there).all()] == before
    assert [path.name for path in tmp_path.iterdir()] == ["storage"]
    key = min(evaluations)
    assert f"{key[:12]} is identical in every" in command("rerun", key[:10], "--storage", there)[0]
