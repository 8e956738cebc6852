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

COMMAND = [sys.executable, "-c", "from sclsearch.cli import main; main()"]


@dataclass
class Driver:
    """A running `sclsearch tune`."""

    process: subprocess.Popen[bytes]
    folder: Path

    def ended(self) -> tuple[int, str, str]:
        """Wait for the end; return exit code, output and errors."""
        code = self.process.wait(PATIENCE)
        return code, (self.folder / "out").read_text(), (self.folder / "err").read_text()


Start = Callable[[], Driver]


@pytest.fixture
def start(
    toy: CustomTask, tiny_bert: Path, space_file: Path, processes: Processes, tmp_path: Path
) -> Iterator[Start]:
    """Yield a function that starts a search of two seed runs that never end."""
    drivers: list[Driver] = []

    def start() -> Driver:
        folder = tmp_path / f"driver-{len(drivers)}"
        folder.mkdir()
        command = [*COMMAND, "tune", "--method", "scl", "--task", str(toy.path)]
        command += ["--text", "text", "--label", "label", "--split-column", "split"]
        command += ["--model", str(tiny_bert), "--space", str(space_file), "--gpus-per-trial", "0"]
        command += ["--configs", "1", "--seeds", "2", "--concurrency", "2", "--tracking", "none"]
        command += ["--storage", str(tmp_path / "storage"), "--study", "s"]
        command += ["--set", "epochs=100000"]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                env={**os.environ, **processes.environment},
                start_new_session=True,
            )
        drivers.append(Driver(process, folder))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()
    processes.kill()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Return the folder of the study."""
    return tmp_path / "storage" / "studies" / "s"


def wait(driver: Driver, event: str, happened: Callable[[], object]) -> None:
    """Wait until an event has happened; fail if the driver ends first."""
    wait_for(event, lambda: happened() or driver.process.poll() is not None)
    assert driver.process.poll() is None, driver.ended()


def test_a_second_driver_is_refused_and_sigterm_ends_the_first_in_order(
    start: Start, study: Path, processes: Processes
) -> None:
    first = start()
    wait(first, "a trial", lambda: processes.named("ray::ImplicitFunc.train"))
    code, _, err = start().ended()
    assert code == 2
    assert f"s: process {first.process.pid} on" in err
    assert "Traceback" not in err

    begun = time.monotonic()
    os.killpg(first.process.pid, signal.SIGTERM)  # `timeout` and Slurm signal the group
    code, out, err = first.ended()
    assert code == 130, err
    assert time.monotonic() - begun < 60
    assert err.count("Stopped: 0 of 2 seed runs. Run the same command") == 1
    assert "Traceback" not in err
    assert "No configuration is finished yet." in out
    assert not list(study.glob("driver*"))
    wait_for("the end of Ray's processes", lambda: not processes.titles())


def test_ctrl_c_before_training_leaves_no_lock(start: Start, study: Path) -> None:
    driver = start()
    wait(driver, "the study's record", (study / "study.json").exists)
    assert list(study.glob("driver*"))
    driver.process.send_signal(signal.SIGINT)
    code, _, err = driver.ended()
    assert code == 130, err
    assert "Traceback" not in err
    assert not list(study.glob("driver*"))
