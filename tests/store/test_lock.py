"""Tests of the lock that allows one driver per study."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store import lock as locks
from sclsearch.store.lock import sole_driver
from sclsearch.store.storage import StoragePath, read, write
from tests.store.conftest import WRITERS, at_once

HOLD = """
import sys
from sclsearch.store.lock import sole_driver
from sclsearch.store.storage import storage_path

with sole_driver(storage_path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(folder: StoragePath) -> Iterator[subprocess.Popen[str]]:
    """Return another process that drives a study until its input ends."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def lock(folder: StoragePath, ahead: float = 0.0, **changes: Any) -> None:
    """Write the lock of another machine, whose clock may be ahead by some seconds."""
    mine = {"host": "elsewhere", "pid_namespace": None, "pid": os.getpid(), "process_start": "1"}
    claim = {**mine, "token": "another", "drives": True, "time": time.time() + ahead, **changes}
    write(folder / f"driver-{claim['token']}.json", claim)


def hosts(folder: StoragePath) -> list[str]:
    found: list[Any] = [read(folder / name, dict) for name in folder.names()]
    return [holder["host"] for holder in found]


def assert_refused(folder: StoragePath, message: str = "already runs this study") -> None:
    with pytest.raises(SclsearchError, match=message), sole_driver(folder):
        pytest.fail("two drivers")


def test_a_second_driver_is_refused_until_the_first_has_ended(
    folder: StoragePath, other: subprocess.Popen[str]
) -> None:
    assert_refused(folder, f"^{folder.name}: process {other.pid} on .* already runs this study. W")
    other.communicate("")
    assert folder.names() == []
    with pytest.raises(ZeroDivisionError), sole_driver(folder):
        raise ZeroDivisionError
    assert folder.names() == []


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_the_lock_of_a_killed_driver_is_taken_over_at_once(
    folder: StoragePath, other: subprocess.Popen[str], reaped: bool
) -> None:
    other.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    if reaped:
        other.wait()
    waited_for: list[str] = []
    with sole_driver(folder, waited_for.append):
        assert len(folder.names()) == 1
    assert waited_for == []


def test_a_process_with_the_reused_pid_of_a_dead_driver_holds_no_lock(folder: StoragePath) -> None:
    lock(folder, pid_namespace=locks.pid_namespace(), process_start="not when this process started")
    with sole_driver(folder):
        assert hosts(folder) == [socket.gethostname()]


@pytest.mark.parametrize(
    "silent",
    [{"ahead": -300.0}, {"ahead": 7200.0}, {"token": "z" * 32, "drives": False}],
    ids=["clock behind", "clock ahead", "a request alone"],
)
def test_the_lock_of_a_silent_machine_expires_whatever_its_clock(
    folder: StoragePath, monkeypatch: pytest.MonkeyPatch, silent: dict[str, Any]
) -> None:
    monkeypatch.setattr(locks, "EXPIRES_SECONDS", 1.0)
    messages: list[str] = []
    lock(folder, **silent)
    started = time.monotonic()
    with sole_driver(folder, messages.append):
        assert hosts(folder) == [socket.gethostname()]
    assert time.monotonic() - started > 0.5
    expected = f"{folder.name}: process {os.getpid()} on elsewhere was running this study"
    assert [line.startswith(expected) for line in messages] == [True] * ("ahead" in silent)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ahead", [-300.0, 7200.0])
def test_a_driver_of_another_machine_that_renews_its_lock_keeps_it(
    folder: StoragePath, ahead: float
) -> None:
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.05):
            lock(folder, ahead)

    lock(folder, ahead)
    with ThreadPoolExecutor() as threads:
        threads.submit(beat)
        try:
            assert_refused(folder, r"process \d+ on elsewhere already runs")
        finally:
            stop.set()
    assert hosts(folder) == ["elsewhere"]


def test_a_driver_of_another_user_counts_as_alive(
    folder: StoragePath, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(path: Path, **_: Any) -> str:
        if path == Path(f"/proc/{other.pid}/stat"):
            raise FileNotFoundError
        return path.read_bytes().decode()

    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", Mock(side_effect=PermissionError))
        patched.setattr(Path, "read_text", hidden)
        assert_refused(folder)


def test_a_delayed_driver_of_this_machine_keeps_its_lock(folder: StoragePath) -> None:
    with sole_driver(folder):
        mine = folder / folder.names()[0]
        late = {"time": time.time() - locks.EXPIRES_SECONDS - 1}
        write(mine, {**(read(mine, dict) or {}), **late})
        assert_refused(folder)
        lock(folder)
    assert hosts(folder) == ["elsewhere"]


def test_a_driver_that_returns_beside_its_successor_ends_and_the_successor_goes_on(
    folder: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.02)
    with sole_driver(folder) as lost:
        lock(folder, drives=True, begun=0.0)
        assert not lost.wait(0.3)
        lock(folder, drives=True, begun=time.time() + 60)
        assert lost.wait(10)


def test_only_one_of_eight_simultaneous_drivers_gets_the_lock(folder: StoragePath) -> None:
    others = threading.Semaphore(0)

    def drive(_: int) -> bool:
        try:
            with sole_driver(folder):
                for _ in range(WRITERS - 1):
                    others.acquire(timeout=60)
        except SclsearchError:
            others.release()
            return False
        return True

    assert sorted(at_once(drive)) == [False] * (WRITERS - 1) + [True]
    assert folder.names() == []
