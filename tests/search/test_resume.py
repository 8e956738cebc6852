"""Tests of a search with a signal or a second driver: it ends in order and leaves no lock."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sclsearch.tasks.custom import CustomTask
from tests.processes import PATIENCE, wait_for
from tests.workspace import Processes

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
def start(
    toy: CustomTask, tiny_bert: Path, space_file: Path, processes: Processes, tmp_path: Path
) -> Iterator[Start]:
    """Yield a function that starts a search of two seed runs that never end."""
    drivers: list[subprocess.Popen[str]] = []
    command = [
        *(sys.executable, "-c", "from sclsearch.cli import main; main()", "tune"),
        *("--method", "scl", "--task", str(toy.path), "--text", "text", "--label", "label"),
        *("--split-column", "split", "--model", str(tiny_bert), "--space", str(space_file)),
        *("--configs", "1", "--seeds", "2", "--concurrency", "2", "--tracking", "none"),
        *("--gpus-per-trial", "0", "--storage", str(tmp_path / "storage"), "--study", "s"),
        *("--set", "epochs=100000"),
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


def test_ctrl_c_before_training_leaves_no_lock(start: Start, study: Path) -> None:
    driver = start()
    driver.wait("the study's record", (study / "study.json").exists)
    assert list(study.glob("driver*"))
    driver.process.send_signal(signal.SIGINT)
    code, _, err = driver.ended()
    assert code == 130, err
    assert not list(study.glob("driver*"))
