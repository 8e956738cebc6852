"""Ray on this machine: it is ours alone, and nobody beyond the machine can reach it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LISTENS = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # Ray leaves files and sockets of its processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def listening(processes: list[int]) -> Iterator[tuple[int, str]]:
    """Yields number of the process and address of every socket that listens."""
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


def test_no_process_of_ray_listens_beyond_this_machine(
    processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from sclsearch.search.cluster import started_ray

    for name, value in processes.environment.items():
        monkeypatch.setenv(name, value)
    with started_ray(None):
        titles = processes.titles()
        assert any("raylet" in title for title in titles.values())
        found = [*listening([os.getpid(), *titles])]
        assert len({pid for pid, _ in found}) >= 3
        assert {address for _, address in found} <= LOOPBACK
    assert not ray.is_initialized()
