"""Tests before the start of Ray: GPUs of this machine, and sessions of killed searches."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend import start
from sclsearch.ray_backend.start import (
    OWNER,
    PREFIX,
    delete_dead_sessions,
    nvidia_driver,
    unusable_gpu,
)
from sclsearch.search.run import run_prepared
from sclsearch.store.lock import pid_namespace, process_start
from tests.studies import Prepare


def test_an_unusable_gpu_driver_is_reported_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    driver = tmp_path / "version"
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13\n")
    assert unusable_gpu(driver) == ""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert unusable_gpu(tmp_path / "none") == ""
    message = unusable_gpu(driver)
    assert message.startswith("This machine has NVIDIA driver 470.57.02, but torch ")
    assert torch.__version__ in message
    open_modules = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
    )
    driver.write_text(open_modules)
    assert (nvidia_driver(driver), nvidia_driver(tmp_path)) == ("570.86.15", None)


@pytest.mark.parametrize(
    ("variable", "folder", "message"),
    [
        ("HOME", "/dev/null/home", r"HOME must be a folder that can be written, got '/dev/null/ho"),
        ("RAY_TMPDIR", "long" * 25, r"long: is too long a name .* Set RAY_TMPDIR to a shorter"),
    ],
)
def test_a_start_that_fails_for_a_folder_names_it_and_the_variable(
    tmp_path: Path, variable: str, folder: str, message: str
) -> None:
    code = "from sclsearch.ray_backend import start; start.started_ray(None).__enter__()"
    places = {"HOME": str(tmp_path), variable: str(tmp_path / folder)}
    done = subprocess.run(  # Ray reads the folders once in a process
        [sys.executable, "-c", code],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(message, done.stderr.splitlines()[-1])


@pytest.mark.ray
@pytest.mark.slow
def test_a_study_for_an_accelerator_that_no_node_has_is_not_stored(prepare: Prepare) -> None:
    scheduler = prepare(accelerator="L4", tracking="none")
    with pytest.raises(SclsearchError, match=r"^--accelerator L4: no node has this accelerator\."):
        run_prepared(scheduler, Console(quiet=True))
    assert scheduler.store.record() is None


Leave = Callable[..., Path]
BOOT, NAMESPACE = (pid_namespace() or " ").split(" ", 1)


@pytest.fixture
def leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leave:
    """Return a function that writes the folder of a search, by default of a killed one."""
    monkeypatch.setattr(start, "gettempdir", lambda: str(tmp_path))

    def leave(name: str = "a", **changes: Any) -> Path:
        session = tmp_path / "ray" / f"session_{name}"
        session.mkdir(parents=True)
        folder = tmp_path / f"{PREFIX}{name}"
        folder.mkdir()
        owner = {
            "pid": os.getpid(),
            "process_start": "another process had this number",
            "host": socket.gethostname(),
            "pid_namespace": pid_namespace(),
            "session": str(session),
        }
        (folder / OWNER).write_text(json.dumps({**owner, **changes}), encoding="utf-8")
        return folder

    return leave


@pytest.mark.parametrize(
    "owner",
    [{}, {"pid_namespace": f"another-boot {NAMESPACE}", "process_start": None}],
    ids=["killed", "before a restart"],
)
def test_folder_and_session_of_a_dead_search_are_removed(
    owner: dict[str, Any], leave: Leave, tmp_path: Path
) -> None:
    (leave("unreadable") / OWNER).write_text("[]", encoding="utf-8")
    folder = leave(**owner)
    delete_dead_sessions()
    assert not (tmp_path / "ray" / "session_a").exists()
    (tmp_path / "ray" / "session_a").mkdir()  # by a Ray process that was still ending
    delete_dead_sessions()
    delete_dead_sessions()
    assert not (tmp_path / "ray" / "session_a").exists()
    assert folder.exists()
    os.utime(folder, (0, 0))
    delete_dead_sessions()
    assert not folder.exists()


@pytest.mark.parametrize(
    "owner",
    [
        {"process_start": process_start(os.getpid())},
        {"pid_namespace": f"{BOOT} pid:[1]"},
        {"pid_namespace": "another-boot pid:[1]", "host": "elsewhere"},
        {"pid_namespace": None},
    ],
    ids=["running", "another container", "another machine", "another system"],
)
def test_the_folder_of_a_search_that_may_still_run_is_kept(
    owner: dict[str, Any], leave: Leave, tmp_path: Path
) -> None:
    folder = leave(**owner)
    delete_dead_sessions()
    assert folder.exists()
    assert (tmp_path / "ray" / "session_a").exists()


def test_a_link_to_the_folder_of_a_dead_search_or_to_its_session_is_not_followed(
    leave: Leave, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    linked = leave("a")
    linked.rename(tmp_path / "real" / linked.name)
    linked.symlink_to(tmp_path / "real" / linked.name)
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "ray" / "session_victim").symlink_to(victim)
    leave("b", session=str(tmp_path / "ray" / "session_victim"))
    elsewhere = tmp_path / "session_c"
    elsewhere.mkdir()
    leave("c", session=str(elsewhere))
    delete_dead_sessions()
    assert elsewhere.exists()
    assert (tmp_path / "ray" / "session_a").exists()
    assert (tmp_path / "real" / linked.name / OWNER).exists()
    assert victim.exists()
