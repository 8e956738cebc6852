"""Tests before the start of Ray: GPUs of this machine, and sessions of killed searches."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.start import (
    OWNER,
    PREFIX,
    delete_dead_sessions,
    nvidia_driver,
    scratch_folder,
    unusable_gpu,
)
from sclsearch.search.run import run_prepared
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
        ("HOME", "/dev/null/home", r"'/dev/null/home/\.ray'\. Set HOME or RAY_TMPDIR"),
        (
            "RAY_TMPDIR",
            "long" * 25,
            r"107 bytes: .*long/ray/.* Set HOME or RAY_TMPDIR",
        ),
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


@pytest.fixture
def leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leave:
    """Return a function that writes the folder of a killed search."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def leave(name: str = "a", session: Path | None = None) -> Path:
        own = tmp_path / "ray" / f"session_{name}"
        own.mkdir(parents=True)
        folder = tmp_path / f"{PREFIX}{name}"
        folder.mkdir()
        (folder / OWNER).write_text(str(session or own), encoding="utf-8")
        return folder

    return leave


def test_folder_and_session_of_a_dead_search_are_removed(leave: Leave, tmp_path: Path) -> None:
    (leave("unreadable") / OWNER).write_bytes(b"\xff")
    folder = leave()
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


def test_folder_and_session_of_a_search_that_runs_are_kept(leave: Leave, tmp_path: Path) -> None:
    session = tmp_path / "ray" / "session_a"
    leave()
    with scratch_folder(session) as folder:
        (tmp_path / f"{PREFIX}a" / OWNER).unlink()
        os.utime(folder, (0, 0))
        delete_dead_sessions()
        assert folder.exists()
        assert session.exists()


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
    leave("b", tmp_path / "ray" / "session_victim")
    elsewhere = tmp_path / "session_c"
    elsewhere.mkdir()
    leave("c", elsewhere)
    delete_dead_sessions()
    assert elsewhere.exists()
    assert (tmp_path / "ray" / "session_a").exists()
    assert (tmp_path / "real" / linked.name / OWNER).exists()
    assert victim.exists()
