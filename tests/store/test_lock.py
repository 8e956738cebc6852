"""Tests of the lock that allows one driver per study."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store import lock as locks
from sclsearch.store.lock import sole_driver
from sclsearch.store.storage import LocalPath, StoragePath, read, write
from tests.store.together import WRITERS, another_driver, at_once


@pytest.fixture
def other(folder: StoragePath) -> Iterator[subprocess.Popen[str]]:
    with another_driver(folder) as process:
        yield process


def lock(folder: StoragePath, **changes: Any) -> None:
    mine = {"host": "elsewhere", "pid": os.getpid(), "process_start": "1", "token": "another"}
    write(folder / "driver-another.json", {**mine, "time": time.time(), **changes})


def holders(folder: StoragePath) -> list[Any]:
    return [read(folder / name) for name in folder.names()]


def test_a_second_driver_is_refused_while_the_first_lives(
    folder: StoragePath, other: subprocess.Popen[str]
) -> None:
    with (
        pytest.raises(
            SclsearchError,
            match=f"^{folder.name}: process {other.pid} on .* already runs this study. Wait",
        ),
        sole_driver(folder),
    ):
        pytest.fail("two drivers")


def test_a_driver_that_ended_leaves_no_lock(
    folder: StoragePath, other: subprocess.Popen[str]
) -> None:
    other.communicate("")
    assert other.returncode == 0
    assert folder.names() == []


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_the_lock_of_a_killed_driver_is_taken_over_at_once(
    folder: StoragePath, other: subprocess.Popen[str], reaped: bool
) -> None:
    other.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    if reaped:
        other.wait()
    started = time.monotonic()
    with sole_driver(folder):
        assert [holder["pid"] for holder in holders(folder)] == [os.getpid()]
    assert time.monotonic() - started < locks.BEAT_SECONDS


def test_a_process_with_the_reused_pid_of_a_dead_driver_holds_no_lock(folder: StoragePath) -> None:
    lock(folder, pid_namespace=locks.pid_namespace(), process_start="not when this process started")
    with sole_driver(folder):
        assert "another" not in [holder["token"] for holder in holders(folder)]


@pytest.mark.parametrize("ahead", [-300.0, 0.0, 7200.0])
def test_the_lock_of_a_silent_machine_expires_whatever_its_clock(
    folder: StoragePath, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    monkeypatch.setattr(locks, "EXPIRES_SECONDS", 1.0)
    messages: list[str] = []
    lock(folder, time=time.time() + ahead)
    started = time.monotonic()
    with sole_driver(folder, messages.append):
        assert [holder["host"] for holder in holders(folder)] == [socket.gethostname()]
    assert 0.5 < time.monotonic() - started < locks.BEAT_SECONDS
    (line,) = messages
    assert line.startswith(
        f"{folder.name}: process {os.getpid()} on elsewhere was running this study"
    )


def test_the_lock_request_of_a_silent_machine_expires(
    folder: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "EXPIRES_SECONDS", 1.0)
    lock(folder, token="z" * 32, drives=False)
    started = time.monotonic()
    with sole_driver(folder):
        assert [holder["host"] for holder in holders(folder)] == [socket.gethostname()]
    assert 0.5 < time.monotonic() - started < locks.BEAT_SECONDS


def test_a_driver_of_another_user_counts_as_alive(
    folder: StoragePath, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(pid: int, signal: int) -> None:
        assert (pid, signal) == (other.pid, 0)
        raise PermissionError

    read_text = Path.read_text

    def hidden(path: Path, **options: Any) -> str:
        if path == Path(f"/proc/{other.pid}/stat"):
            raise FileNotFoundError
        return read_text(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", forbidden)
        patched.setattr(Path, "read_text", hidden)
        with pytest.raises(SclsearchError, match="already runs this study"):
            sole_driver(folder).__enter__()


@pytest.mark.parametrize("ahead", [-300.0, 0.0, 7200.0])
def test_a_driver_of_another_machine_that_renews_its_lock_keeps_it(
    folder: StoragePath, ahead: float
) -> None:
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.05):
            lock(folder, time=time.time() + ahead)

    lock(folder, time=time.time() + ahead)
    other = threading.Thread(target=beat)
    other.start()
    try:
        with pytest.raises(SclsearchError, match=r"process \d+ on elsewhere already runs"):
            sole_driver(folder).__enter__()
    finally:
        stop.set()
        other.join()
    assert [holder["host"] for holder in holders(folder)] == ["elsewhere"]


def test_a_delayed_driver_of_this_machine_keeps_its_lock(folder: StoragePath) -> None:
    with sole_driver(folder):
        (mine,) = folder.names()
        late = {**holders(folder)[0], "time": time.time() - locks.EXPIRES_SECONDS - 1}
        write(folder / mine, late)
        with pytest.raises(SclsearchError, match="already runs this study"):
            sole_driver(folder).__enter__()


def test_a_driver_that_lost_its_lock_keeps_the_lock_of_its_successor(folder: StoragePath) -> None:
    with sole_driver(folder):
        lock(folder)
    assert [holder["host"] for holder in holders(folder)] == ["elsewhere"]


def test_a_driver_notices_that_its_lock_is_gone_and_does_not_restore_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.02)
    folder = LocalPath(tmp_path)
    with sole_driver(folder) as lost:
        assert not lost.wait(0.1)
        (mine,) = folder.names()
        until = time.monotonic() + 10
        while not lost.wait(0.05):  # a beat in progress may still write the file
            (tmp_path / mine).unlink(missing_ok=True)
            assert time.monotonic() < until
        time.sleep(0.1)
        assert folder.names() == []


def test_an_error_releases_the_lock(folder: StoragePath) -> None:
    with pytest.raises(ZeroDivisionError), sole_driver(folder):
        raise ZeroDivisionError
    assert folder.names() == []


def test_only_one_of_eight_simultaneous_drivers_gets_the_lock(folder: StoragePath) -> None:
    def drive(_: int) -> bool:
        try:
            with sole_driver(folder):
                refused.wait(60)
        except SclsearchError:
            others.append(True)
            if len(others) == WRITERS - 1:
                refused.set()
            return False
        return True

    others: list[bool] = []
    refused = threading.Event()
    assert sorted(at_once(drive)) == [False] * (WRITERS - 1) + [True]
    assert folder.names() == []
