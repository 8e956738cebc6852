"""A search that is killed, stopped or cut off goes on and ends as if nothing had happened."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend.leftovers import ENDED
from sclsearch.tasks.custom import CustomTask
from tests.studies import figures

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

CONFIGS, SEEDS = 16, 2
REACTING = 11
"""From this configuration on proposals depend on scores: Optuna's random start is over."""
PATIENCE = 240.0
ENDLESS = ("--set", "epochs=100000")
COMMAND = [sys.executable, "-c", "from sclsearch.cli import main; main()"]


@dataclass
class Driver:
    """A running `sclsearch tune`."""

    process: subprocess.Popen[bytes]
    folder: Path
    stored_before: int = 0

    def ended(self) -> tuple[int, str, str]:
        """Waits for the end; returns exit code, output and errors."""
        code = self.process.wait(PATIENCE)
        return code, (self.folder / "out").read_text(), (self.folder / "err").read_text()


Start = Callable[..., Driver]


@pytest.fixture
def start(
    toy: CustomTask, tiny_bert: Path, space_file: Path, processes: Any, tmp_path: Path
) -> Iterator[Start]:
    """Returns what starts a search of 16 configurations with two seeds each."""
    drivers: list[Driver] = []

    def start(storage: Path, *options: str, tracking: str = "none") -> Driver:
        folder = tmp_path / f"driver-{len(drivers)}"
        folder.mkdir()
        command = [*COMMAND, "tune", "--method", "scl", "--task", str(toy.path)]
        command += ["--text", "text", "--label", "label", "--split-column", "split"]
        command += ["--model", str(tiny_bert), "--space", str(space_file), "--gpus-per-trial", "0"]
        command += ["--configs", str(CONFIGS), "--seeds", str(SEEDS), "--concurrency", "2"]
        command += ["--storage", str(storage), "--tracking", tracking, "--study", "s", *options]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                env={**os.environ, **processes.environment},
                start_new_session=True,
            )
        drivers.append(Driver(process, folder, len(runs(storage))))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()
    processes.kill()


def runs(storage: Path) -> dict[str, tuple[int, bytes]]:
    """Returns inode and content of every stored seed run."""
    paths = (storage / "runs").glob("*.json")
    return {path.stem: (path.stat().st_ino, path.read_bytes()) for path in paths}


def configurations(storage: Path) -> dict[str, bytes]:
    folder = storage / "studies" / "s" / "configurations"
    return {path.stem: path.read_bytes() for path in folder.glob("*.json")}


def wait(driver: Driver, until: Callable[[], object]) -> None:
    """Returns once something is so; fails if the driver ends before."""
    end = time.monotonic() + PATIENCE
    while not until():
        assert driver.process.poll() is None, driver.ended()
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("undisturbed")


@pytest.fixture
def complete(undisturbed: Path, start: Start, dead_port: int) -> tuple[int, str, str]:
    """Returns how the search ends that nothing disturbs but a tracking server that is down."""
    return start(undisturbed, tracking=f"http://127.0.0.1:{dead_port}").ended()


def test_a_search_that_is_stopped_and_killed_ends_like_an_undisturbed_one(
    complete: tuple[int, str, str], undisturbed: Path, start: Start, processes: Any, tmp_path: Path
) -> None:
    assert complete[0] == 0, complete
    storage = tmp_path / "disturbed"
    kept: list[dict[str, tuple[int, bytes]]] = []

    stopped = start(storage)
    wait(stopped, lambda: in_training(processes))
    group = stopped.process.pid  # which `timeout` and Slurm signal
    done, _ = ended_in_order(stopped, storage, processes, lambda: os.killpg(group, signal.SIGTERM))
    # A worker may have stored one that the driver did not hear of.
    assert done <= len(runs(storage)) <= done + 2 < CONFIGS * SEEDS
    kept.append(runs(storage))

    first = start(storage)
    wait(first, lambda: len(configurations(storage)) > REACTING)
    first.process.kill()
    first.process.wait()
    kept.append(runs(storage))

    second = start(storage)
    wait(second, lambda: len(runs(storage)) > len(kept[1]) + 2)
    for pid in processes.named("raylet/raylet --"):
        os.kill(pid, signal.SIGKILL)
    code, _, err = second.ended()
    assert code == ENDED, err
    assert "its raylet on this machine died. Run the same command to resume" in err
    kept.append(runs(storage))

    last = start(storage)
    code, out, err = last.ended()
    assert code == 0, err
    assert "Winner" in out
    stored = [int(number) for number in re.findall(r"(\d+) stored", err)]
    assert last.stored_before <= max(stored) <= last.stored_before + 2

    assert configurations(storage) == configurations(undisturbed)
    assert figures(storage) == figures(undisturbed)
    assert len(runs(storage)) == CONFIGS * SEEDS
    for earlier in kept:
        assert earlier.items() <= runs(storage).items()


def test_a_search_ignores_a_dead_tracking_server_and_track_completes_mlflow(
    complete: tuple[int, str, str], undisturbed: Path, tmp_path: Path
) -> None:
    code, out, err = complete
    assert code == 0
    assert "Winner" in out
    pattern = (
        rf"MLflow: could not reach .* `sclsearch track s --storage {undisturbed} .*` completes it\."
    )
    assert re.search(pattern, err), err
    track = [*COMMAND, "track", "s", "--storage", str(undisturbed)]
    track += ["--tracking", f"sqlite:///{tmp_path}/mlflow.db"]
    shown = subprocess.run(track, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    missing = 1 + CONFIGS + CONFIGS * SEEDS
    assert shown.stdout == f"MLflow shows all of s; {missing} runs were missing.\n"


def in_training(processes: Any) -> bool:
    return bool(processes.named("ray::ImplicitFunc.train"))


def test_a_second_driver_is_refused_and_ctrl_c_ends_the_first_in_order(
    start: Start, processes: Any, tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    first = start(storage, *ENDLESS)
    wait(first, lambda: in_training(processes))
    code, _, err = start(storage, *ENDLESS).ended()
    assert code == 2
    assert f"s: process {first.process.pid} on" in err
    assert "Traceback" not in err
    done, out = ended_in_order(
        first, storage, processes, lambda: os.killpg(first.process.pid, signal.SIGINT)
    )
    assert (done, runs(storage)) == (0, {})
    assert "No configuration is finished yet." in out


def ended_in_order(
    driver: Driver, storage: Path, processes: Any, stop: Callable[[], object]
) -> tuple[int, str]:
    """Stops a driver, which must end in order; returns the printed seed runs and the output."""
    begun = time.monotonic()
    stop()
    code, out, err = driver.ended()
    assert code == 130, err
    assert time.monotonic() - begun < 60
    counts = re.findall(
        rf"Stopped: (\d+) of {CONFIGS * SEEDS} seed runs\. Run the same command", err
    )
    assert len(counts) == 1, err
    assert "Traceback" not in err
    assert not list((storage / "studies" / "s").glob("driver*"))
    end = time.monotonic() + PATIENCE
    while processes.titles():
        assert time.monotonic() < end, processes.titles()
        time.sleep(0.2)
    return int(counts[0]), out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_before_anything_trains_leaves_no_lock_behind(
    start: Start, tmp_path: Path, number: int
) -> None:
    study = tmp_path / "storage" / "studies" / "s"
    driver = start(tmp_path / "storage")
    wait(driver, (study / "study.json").exists)
    assert list(study.glob("driver*"))
    driver.process.send_signal(number)
    code, _, err = driver.ended()
    assert code == 130, err
    assert "Traceback" not in err
    assert not list(study.glob("driver*"))
