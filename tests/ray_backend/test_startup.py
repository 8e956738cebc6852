"""Tests of the start of Ray: its token, the address of a cluster and the shutdown."""

import gc
import os
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from tests.workspace import Processes

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]


def test_an_address_without_a_cluster_raises_an_error_within_seconds(
    dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sclsearch.ray_backend.start import started_ray

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
    from sclsearch.ray_backend.start import started_ray

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


def test_only_the_user_can_read_the_token_that_ray_creates(
    tmp_path: Path, processes: Processes
) -> None:
    code = "from sclsearch.ray_backend.start import started_ray\nwith started_ray(None): pass"
    unset = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {**processes.environment, "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
