"""Tests of Ray on this machine: sockets, signals, GPUs and output."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace import Processes

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


def test_no_process_of_ray_listens_beyond_this_machine(own_ray: None, processes: Processes) -> None:
    titles = processes.titles()
    assert any("raylet" in title for title in titles.values())
    sockets = [*listening([os.getpid(), *titles])]
    assert len({pid for pid, _ in sockets}) >= 3
    assert {address for _, address in sockets} <= LOOPBACK


def test_sigterm_to_the_process_group_reaches_only_the_driver(
    own_ray: None, processes: Processes
) -> None:
    assert os.getpgid(0) not in map(os.getpgid, processes.titles())


def test_a_worker_sees_no_gpu_that_it_did_not_request(own_ray: None) -> None:
    import ray

    seen = ray.remote(num_gpus=0)(os.getenv).remote("CUDA_VISIBLE_DEVICES")
    assert ray.get(seen) == ""
