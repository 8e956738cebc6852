"""One driver at a time runs a study; one that died does not keep the others out."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store import driver
from sclsearch.store.driver import sole_driver
from sclsearch.store.objects import read, write

HOLD = """
import sys
from pathlib import Path
from sclsearch.store.driver import sole_driver

with sole_driver(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Returns another process that drives the study in `tmp_path` until its input ends."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def lock(folder: Path, **changes: Any) -> None:
    mine = {"host": socket.gethostname(), "pid": os.getpid(), "born": "1", "token": "another"}
    write(folder / "driver-another.json", {**mine, "time": time.time(), **changes})


def holders(folder: Path) -> list[Any]:
    return [read(path) for path in folder.glob("driver*")]


def test_a_second_driver_is_refused_while_the_first_lives(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    with (
        pytest.raises(
            SclsearchError,
            match=f"^{tmp_path.name}: one driver .* but process {other.pid} on .* does. Wait",
        ),
        sole_driver(tmp_path),
    ):
        pytest.fail("two drivers")


def test_a_driver_that_ended_leaves_no_lock(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    other.communicate("")
    assert other.returncode == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_the_lock_of_a_killed_driver_is_taken_at_once(
    tmp_path: Path, other: subprocess.Popen[str], reaped: bool
) -> None:
    other.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    if reaped:
        other.wait()
    started = time.monotonic()
    with sole_driver(tmp_path):
        assert [holder["pid"] for holder in holders(tmp_path)] == [os.getpid()]
    assert time.monotonic() - started < driver.BEAT_SECONDS


def test_a_process_that_has_the_number_of_a_dead_driver_is_not_taken_for_it(
    tmp_path: Path,
) -> None:
    lock(tmp_path, born="not when this process was born")
    with sole_driver(tmp_path):
        assert "another" not in [holder["token"] for holder in holders(tmp_path)]


def test_a_lock_of_another_machine_holds_until_it_expires(tmp_path: Path) -> None:
    lock(tmp_path, host="elsewhere")
    with pytest.raises(SclsearchError, match=r"but process \d+ on elsewhere does"):
        sole_driver(tmp_path).__enter__()
    lock(tmp_path, host="elsewhere", time=time.time() - driver.EXPIRES_SECONDS - 1)
    with sole_driver(tmp_path):
        assert [holder["host"] for holder in holders(tmp_path)] == [socket.gethostname()]


@pytest.mark.slow
def test_the_heartbeat_keeps_the_lock_beyond_its_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(driver, "EXPIRES_SECONDS", 0.6)
    with sole_driver(tmp_path):
        time.sleep(1.2)
        with pytest.raises(SclsearchError, match="one driver at a time"):
            sole_driver(tmp_path).__enter__()
    assert not list(tmp_path.iterdir())


def test_a_driver_that_lost_its_lock_leaves_the_new_ones(tmp_path: Path) -> None:
    with sole_driver(tmp_path):
        lock(tmp_path, host="elsewhere")
    assert [holder["host"] for holder in holders(tmp_path)] == ["elsewhere"]


def test_a_driver_whose_lock_was_taken_does_not_take_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BEAT_SECONDS", 0.02)
    with sole_driver(tmp_path):
        (mine,) = tmp_path.iterdir()
        mine.unlink()
        time.sleep(0.3)
        assert not list(tmp_path.iterdir())


def test_the_lock_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), sole_driver(tmp_path):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
