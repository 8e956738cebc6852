"""Tests of `tune`: signals, a second driver, and an object store instead of a folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from sclsearch.store.runs import RunStore
from sclsearch.store.storage import StoragePath, storage_path
from sclsearch.tasks.custom import CustomTask
from tests.processes import PATIENCE, wait_for
from tests.studies import in_process
from tests.workspace import Call, Processes

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass
class Driver:
    """A running `sclsearch tune`."""

    process: subprocess.Popen[str]

    def wait(self, event: str, happened: Callable[[], object]) -> None:
        """Wait until an event has happened; fail if the driver ends first."""
        wait_for(event, lambda: happened() or self.process.poll() is not None)
        assert self.process.poll() is None, self.ended()

    def ended(self) -> tuple[int, str, str]:
        """Wait for the end; return exit code, output and errors."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert "Traceback" not in err
        return self.process.returncode, out, err


Start = Callable[[], Driver]


@pytest.fixture
def tune(toy: CustomTask, tiny_bert: Path, space_file: Path) -> list[str]:
    """Return the arguments of a search with two seeds per configuration."""
    return [
        *("tune", "--method", "scl", "--task", str(toy.path), "--text", "text", "--label", "label"),
        *("--split-column", "split", "--model", str(tiny_bert), "--space", str(space_file)),
        *("--seeds", "2", "--gpus-per-trial", "0", "--study", "s"),
    ]


@pytest.fixture
def start(tune: list[str], processes: Processes, tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts a search of two seed runs that never end."""
    drivers: list[subprocess.Popen[str]] = []
    command = [sys.executable, "-c", "from sclsearch.cli import main; main()", *tune, "--configs=1"]
    command += [
        "--concurrency=2",
        "--tracking=none",
        f"--storage={tmp_path / 'storage'}",
        "--set",
        "epochs=100000",
    ]

    def start() -> Driver:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **processes.environment},
            start_new_session=True,
        )
        drivers.append(process)
        return Driver(process)

    yield start
    for driver in drivers:
        driver.kill()
        driver.communicate()
    processes.kill()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Return the folder of the study."""
    return tmp_path / "storage" / "studies" / "s"


def test_a_second_driver_is_refused_and_sigterm_ends_the_first_in_order(
    start: Start, study: Path, processes: Processes
) -> None:
    first = start()
    first.wait("a trial", lambda: processes.named("ray::ImplicitFunc.train"))
    code, _, err = start().ended()
    assert code == 2
    assert f"s: process {first.process.pid} on" in err

    begun = time.monotonic()
    os.killpg(first.process.pid, signal.SIGTERM)  # `timeout` and Slurm signal the group
    code, out, err = first.ended()
    assert code == 130, err
    assert time.monotonic() - begun < 60
    assert err.count("Stopped: 0 of 2 seed runs. Run the same command") == 1
    assert "No configuration is finished yet." in out
    assert not list(study.glob("driver*"))
    wait_for("the end of Ray's processes", lambda: not processes.titles())


def test_the_death_of_an_agent_of_ray_is_one_line_with_exit_code_2(
    start: Start, study: Path, processes: Processes
) -> None:
    driver = start()
    driver.wait("a trial", lambda: processes.named("ray::ImplicitFunc.train"))
    os.kill(processes.named("ray::RuntimeEnvAgent")[-1], signal.SIGKILL)
    code, _, err = driver.ended()
    assert code == 2, err
    last = err.splitlines()[-1]
    assert "Ray: its process " in last
    assert "was killed. Run the same command again to resume" in last
    assert not list(study.glob("driver*"))


def test_ctrl_c_before_training_leaves_no_lock(start: Start, study: Path) -> None:
    driver = start()
    driver.wait("the study's record", (study / "study.json").exists)
    assert list(study.glob("driver*"))
    driver.process.send_signal(signal.SIGINT)
    code, _, err = driver.ended()
    assert code == 130, err
    assert not list(study.glob("driver*"))


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
    out, err = command(*tune, "--storage", there)
    assert "MLflow: an object store holds no database" in err
    assert f"weights {there}/studies/s/weights: " in out
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
