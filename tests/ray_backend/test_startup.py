"""Tests of the start of Ray: its token, the address of a cluster and the shutdown."""

import gc
import os
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from tests.workspace import Processes, Workspace

TOKEN = "0123456789abcdef" * 4

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home folder; the environment configures no token."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_token_is_created_once_and_readable_only_by_its_user(home: Path) -> None:
    from sclsearch.ray_backend.startup import keep_token_private

    file = home / ".ray" / "auth_token"
    keep_token_private()
    token = file.read_text()
    assert len(token) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # as Ray itself leaves it
    keep_token_private()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == token
    assert [*file.parent.iterdir()] == [file]


@pytest.mark.parametrize(
    "setting",
    [("RAY_AUTH_MODE", "disabled"), ("RAY_AUTH_TOKEN", TOKEN), ("RAY_AUTH_TOKEN_PATH", "t")],
)
def test_token_settings_of_the_user_are_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch, setting: tuple[str, str]
) -> None:
    from sclsearch.ray_backend.startup import keep_token_private

    monkeypatch.setenv(*setting)
    keep_token_private()
    assert not (home / ".ray").exists()


def test_an_address_without_a_cluster_raises_an_error_within_seconds(
    dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sclsearch.ray_backend.startup import started_ray

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    address = f"127.0.0.1:{dead_port}"
    begun = time.monotonic()
    with (
        pytest.raises(SclsearchError, match=rf"^--address {address}: no Ray cluster answers"),
        started_ray(address),
    ):
        pass
    assert time.monotonic() - begun < 20


def test_garbage_is_collected_before_and_not_during_rays_shutdown(
    dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sclsearch.ray_backend.startup import started_ray

    class Held:
        pass

    held = Held()
    held.itself = held  # type: ignore[attr-defined]
    left, seen = weakref.ref(held), list[object]()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr("ray.shutdown", lambda: seen.append((left(), gc.isenabled())))
    del held
    with pytest.raises(SclsearchError), started_ray(f"127.0.0.1:{dead_port}"):
        pass
    assert seen == [(None, False)]
    assert gc.isenabled()


def test_the_token_appears_only_in_its_file(
    home: Path, workspace: Workspace, processes: Processes
) -> None:
    file = home / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_text(TOKEN)
    task = workspace.spec.task
    assert not isinstance(task, str)
    command = [sys.executable, "-c", "from sclsearch.cli import main; main()", "train"]
    command += ["--method", "scl", "--task", str(task.path), "--text", "text", "--label", "label"]
    command += ["--split-column", "split", "--model", str(workspace.spec.model), "--seeds", "1"]
    command += ["--gpus-per-trial", "0", "--storage", str(home / "storage"), "--epochs", "1"]
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        environment = {**os.environ, **processes.environment, "RAY_TMPDIR": folder}
        result = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert result.returncode == 0, (result.stdout + result.stderr).decode()
        assert result.stderr.count(b"1/1 seed runs") == 1
        assert TOKEN.encode() not in result.stdout + result.stderr
        files = [path for top in (home, Path(folder)) for path in top.rglob("*") if path.is_file()]
        assert {"mlflow.db", "raylet.out", "gcs_server.out"} <= {path.name for path in files}
        assert [path for path in files if TOKEN.encode() in path.read_bytes()] == [file]
    assert file.stat().st_mode & 0o777 == 0o600
