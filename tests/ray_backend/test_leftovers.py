"""Tests of the sweep: it deletes leftovers of killed searches on this machine, nothing else."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend import leftovers
from sclsearch.ray_backend.leftovers import OWNER, PREFIX, sweep
from sclsearch.store.driver import born, numbering

Leave = Callable[..., Path]


@pytest.fixture
def leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leave:
    """Return a function that writes the folder of a search, by default of a killed one."""
    monkeypatch.setattr(leftovers, "gettempdir", lambda: str(tmp_path))

    def leave(name: str = "a", **changes: Any) -> Path:
        session = tmp_path / f"session_{name}"
        session.mkdir()
        folder = tmp_path / f"{PREFIX}{name}"
        folder.mkdir()
        owner = {
            "pid": os.getpid(),
            "born": "another process had this number",
            "host": socket.gethostname(),
            "numbering": numbering(),
            "groups": [],
            "session": str(session),
        }
        (folder / OWNER).write_text(json.dumps({**owner, **changes}), encoding="utf-8")
        return folder

    return leave


@pytest.fixture
def agent() -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a process with a Ray process's command line, in a separate process group."""
    command = [sys.executable, "-c", "import time; time.sleep(60)", "/ray/agent"]
    with subprocess.Popen(command, process_group=0) as process:
        yield process
        process.kill()


def test_folder_session_and_processes_of_a_killed_search_are_removed(
    leave: Leave, agent: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    folder = leave(groups=[agent.pid])
    time.sleep(0.2)  # the command line appears after a moment
    sweep()
    assert not folder.exists()
    assert not (tmp_path / "session_a").exists()
    assert agent.wait(10) == -signal.SIGKILL


def test_a_worker_in_a_separate_process_group_is_killed_by_its_session_name(
    leave: Leave, tmp_path: Path
) -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)", "/ray/worker"]
    ours = [*sleeping, "--session-name=session_a"]
    theirs = [*sleeping, "--session-name=session_ab"]
    with (
        subprocess.Popen(ours, process_group=0) as worker,
        subprocess.Popen(theirs, process_group=0) as other,
    ):
        leave()
        time.sleep(0.2)
        sweep()
        try:
            assert worker.wait(10) == -signal.SIGKILL
            assert other.poll() is None
        finally:
            worker.kill()
            other.kill()


def test_leftovers_from_before_a_restart_are_removed(leave: Leave) -> None:
    folder = leave(numbering=f"another-boot {(numbering() or ' ').split()[1]}", born=None)
    sweep()
    assert not folder.exists()


CONTAINER = f"{(numbering() or ' ').split()[0]} pid:[1]"


@pytest.mark.parametrize(
    "owner",
    [
        {"born": born(os.getpid())},
        {"numbering": CONTAINER},
        {"numbering": "another-boot pid:[1]", "host": "elsewhere"},
        {"numbering": None},
    ],
    ids=["running", "another container", "another machine", "another system"],
)
def test_the_folder_of_a_search_that_may_still_run_is_kept(
    owner: dict[str, Any], leave: Leave, tmp_path: Path
) -> None:
    folder = leave(**owner)
    sweep()
    assert folder.exists()
    assert (tmp_path / "session_a").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": 1}'])
def test_an_unreadable_owner_file_does_not_stop_the_sweep(
    content: str, leave: Leave, tmp_path: Path
) -> None:
    folder = leave()
    (folder / OWNER).write_text(content, encoding="utf-8")
    dead = leave("b")
    sweep()
    assert folder.exists()
    assert not dead.exists()
