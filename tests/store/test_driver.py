"""One driver at a time runs a study; one that died does not keep the others out."""

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
from sclsearch.store import driver
from sclsearch.store.driver import sole_driver
from sclsearch.store.local import LocalPath
from sclsearch.store.objects import read, write
from sclsearch.store.storage import StoragePath
from tests.store.together import WRITERS, another_driver, at_once


@pytest.fixture
def other(place: StoragePath) -> Iterator[subprocess.Popen[str]]:
    with another_driver(place) as process:
        yield process


def lock(place: StoragePath, **changes: Any) -> None:
    mine = {"host": "elsewhere", "pid": os.getpid(), "born": "1", "token": "another"}
    write(place / "driver-another.json", {**mine, "time": time.time(), **changes})


def holders(place: StoragePath) -> list[Any]:
    return [read(place / name) for name in place.names()]


def test_a_second_driver_is_refused_while_the_first_lives(
    place: StoragePath, other: subprocess.Popen[str]
) -> None:
    with (
        pytest.raises(
            SclsearchError,
            match=f"^{place.name}: process {other.pid} on .* already runs this study. Wait",
        ),
        sole_driver(place),
    ):
        pytest.fail("two drivers")


def test_a_driver_that_ended_leaves_no_lock(
    place: StoragePath, other: subprocess.Popen[str]
) -> None:
    other.communicate("")
    assert other.returncode == 0
    assert place.names() == []


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_the_lock_of_a_killed_driver_is_taken_at_once(
    place: StoragePath, other: subprocess.Popen[str], reaped: bool
) -> None:
    other.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    if reaped:
        other.wait()
    started = time.monotonic()
    with sole_driver(place):
        assert [holder["pid"] for holder in holders(place)] == [os.getpid()]
    assert time.monotonic() - started < driver.BEAT_SECONDS


def test_a_process_that_has_the_number_of_a_dead_driver_is_not_taken_for_it(
    place: StoragePath,
) -> None:
    lock(place, numbering=driver.numbering(), born="not when this process was born")
    with sole_driver(place):
        assert "another" not in [holder["token"] for holder in holders(place)]


@pytest.mark.parametrize("ahead", [-300.0, 0.0, 7200.0])
def test_a_driver_of_another_machine_is_waited_for_whatever_its_clock(
    place: StoragePath, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    monkeypatch.setattr(driver, "EXPIRES_SECONDS", 1.0)
    messages: list[str] = []
    lock(place, time=time.time() + ahead)
    started = time.monotonic()
    with sole_driver(place, messages.append):
        assert [holder["host"] for holder in holders(place)] == [socket.gethostname()]
    assert 0.5 < time.monotonic() - started < driver.BEAT_SECONDS
    (line,) = messages
    assert line.startswith(
        f"{place.name}: process {os.getpid()} on elsewhere was running this study"
    )


def test_one_elsewhere_that_died_while_it_asked_is_waited_for_no_longer(
    place: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "EXPIRES_SECONDS", 1.0)
    lock(place, token="z" * 32, drives=False)
    started = time.monotonic()
    with sole_driver(place):
        assert [holder["host"] for holder in holders(place)] == [socket.gethostname()]
    assert 0.5 < time.monotonic() - started < driver.BEAT_SECONDS


def test_a_driver_whom_this_user_may_not_look_at_is_alive(
    place: StoragePath, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
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
            sole_driver(place).__enter__()


@pytest.mark.parametrize("ahead", [-300.0, 0.0, 7200.0])
def test_a_driver_of_another_machine_that_is_heard_of_again_keeps_its_study(
    place: StoragePath, ahead: float
) -> None:
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.05):
            lock(place, time=time.time() + ahead)

    lock(place, time=time.time() + ahead)
    other = threading.Thread(target=beat)
    other.start()
    try:
        with pytest.raises(SclsearchError, match=r"process \d+ on elsewhere already runs"):
            sole_driver(place).__enter__()
    finally:
        stop.set()
        other.join()
    assert [holder["host"] for holder in holders(place)] == ["elsewhere"]


def test_a_driver_of_this_machine_that_was_held_up_keeps_its_lock(place: StoragePath) -> None:
    with sole_driver(place):
        (mine,) = place.names()
        late = {**holders(place)[0], "time": time.time() - driver.EXPIRES_SECONDS - 1}
        write(place / mine, late)
        with pytest.raises(SclsearchError, match="already runs this study"):
            sole_driver(place).__enter__()


def test_a_driver_that_lost_its_lock_leaves_the_new_ones(place: StoragePath) -> None:
    with sole_driver(place):
        lock(place)
    assert [holder["host"] for holder in holders(place)] == ["elsewhere"]


def test_a_driver_whose_lock_was_taken_is_told_and_does_not_take_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BEAT_SECONDS", 0.02)
    folder = LocalPath(tmp_path)
    with sole_driver(folder) as lost:
        assert not lost.wait(0.1)
        (mine,) = folder.names()
        until = time.monotonic() + 10
        while not lost.wait(0.05):  # a beat that has looked already still writes
            (tmp_path / mine).unlink(missing_ok=True)
            assert time.monotonic() < until
        time.sleep(0.1)
        assert folder.names() == []


def test_the_lock_is_gone_after_an_error(place: StoragePath) -> None:
    with pytest.raises(ZeroDivisionError), sole_driver(place):
        raise ZeroDivisionError
    assert place.names() == []


def test_of_eight_drivers_that_start_together_one_drives(place: StoragePath) -> None:
    def drive(_: int) -> bool:
        try:
            with sole_driver(place):
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
    assert place.names() == []
