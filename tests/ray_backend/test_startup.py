"""Ray on this machine or a cluster: whose it is, who answers, who can read its token."""

import gc
import os
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from tests.workspace import Workspace

TOKEN = "0123456789abcdef" * 4

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a home of the test's own, with nothing said of tokens."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_token_is_made_once_and_for_its_user_alone(home: Path) -> None:
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
    "said", [("RAY_AUTH_MODE", "disabled"), ("RAY_AUTH_TOKEN", TOKEN), ("RAY_AUTH_TOKEN_PATH", "t")]
)
def test_what_the_user_says_of_tokens_stands(
    home: Path, monkeypatch: pytest.MonkeyPatch, said: tuple[str, str]
) -> None:
    from sclsearch.ray_backend.startup import keep_token_private

    monkeypatch.setenv(*said)
    keep_token_private()
    assert not (home / ".ray").exists()


def test_an_address_where_nobody_answers_is_an_error_within_seconds(
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


def test_nothing_of_ray_is_freed_while_it_is_shut_down(
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


def test_the_token_is_nowhere_but_in_its_file(home: Path, place: Workspace, processes: Any) -> None:
    file = home / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_text(TOKEN)
    task = place.spec.task
    assert not isinstance(task, str)
    command = [sys.executable, "-c", "from sclsearch.cli import main; main()", "train"]
    command += ["--method", "scl", "--task", str(task.path), "--text", "text", "--label", "label"]
    command += ["--split-column", "split", "--model", str(place.spec.model), "--seeds", "1"]
    command += ["--gpus-per-trial", "0", "--storage", str(home / "storage"), "--epochs", "1"]
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        environment = {**os.environ, **processes.environment, "RAY_TMPDIR": folder}
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        assert done.stderr.count(b"1/1 seed runs") == 1
        assert TOKEN.encode() not in done.stdout + done.stderr
        files = [path for top in (home, Path(folder)) for path in top.rglob("*") if path.is_file()]
        assert {"mlflow.db", "raylet.out", "gcs_server.out"} <= {path.name for path in files}
        assert [path for path in files if TOKEN.encode() in path.read_bytes()] == [file]
    assert file.stat().st_mode & 0o777 == 0o600
