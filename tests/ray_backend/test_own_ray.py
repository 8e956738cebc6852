"""Tests of Ray's start: sockets, signals, GPUs, token, shutdown, and a cluster that is gone."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from tests.processes import Processes

LISTENS = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def own_ray(processes: Processes) -> Iterator[None]:
    """Start Ray with an environment that marks its processes."""
    import ray

    from sclsearch.ray_backend.start import started_ray

    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in processes.environment.items():
            patch.setenv(name, value)
        patch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        with started_ray(None):
            assert signal.getsignal(signal.SIGTERM) == handler
            yield
    assert not ray.is_initialized()


def listening(processes: list[int]) -> Iterator[tuple[int, str]]:
    """Yield the process id and the address of every listening socket."""
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    addresses = {
        f"socket:[{row[9]}]": row[1].partition(":")[0] for row in rows if row[3] == LISTENS
    }
    for pid in processes:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            try:
                socket = str(file.readlink())
            except FileNotFoundError:
                continue
            if socket in addresses:
                yield pid, addresses[socket]


def test_rays_processes_listen_on_this_machine_only_and_get_no_signals_of_the_driver(
    own_ray: None, processes: Processes
) -> None:
    titles = processes.titles()
    assert any("raylet" in title for title in titles.values())
    sockets = [*listening([os.getpid(), *titles])]
    assert len({pid for pid, _ in sockets}) >= 3
    assert {address for _, address in sockets} <= LOOPBACK
    assert os.getpgid(0) not in map(os.getpgid, titles)


def test_a_worker_sees_no_gpu_that_it_did_not_request(own_ray: None) -> None:
    import ray

    seen = ray.remote(num_gpus=0)(os.getenv).remote("CUDA_VISIBLE_DEVICES")
    assert ray.get(seen) == ""


def test_other_users_have_no_access_to_rays_session(own_ray: None) -> None:
    from ray._private.worker import _global_node

    assert Path(_global_node.get_session_dir_path()).stat().st_mode & 0o777 == 0o700


@pytest.mark.timeout(60)
def test_an_address_without_a_cluster_is_an_error_without_garbage_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sclsearch.ray_backend.start import started_ray

    collected: list[bool] = []
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.shutdown", lambda: collected.append(gc.isenabled()))
    address = "127.0.0.1:9"
    with pytest.raises(SclsearchError, match=rf"^--address {address}: no Ray cluster answers"):
        started_ray(address).__enter__()
    assert (collected, gc.isenabled()) == ([False], True)


def test_only_the_user_can_read_the_token_that_ray_creates(
    tmp_path: Path, processes: Processes
) -> None:
    code = "from sclsearch.ray_backend.start import started_ray\nwith started_ray(None): pass"
    unset = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {**processes.environment, "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
