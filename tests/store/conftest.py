"""Storages for tests: a folder and a bucket, and writers and drivers beside each other."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from sclsearch.store.storage import StoragePath, storage_path

WRITERS = 8
HOLD = """
import sys
from sclsearch.store.lock import sole_driver
from sclsearch.store.storage import storage_path

with sole_driver(storage_path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def at_once(do: Callable[[int], Any]) -> list[Any]:
    """Return the results of eight threads that call a function at the same time."""
    barrier = threading.Barrier(WRITERS)

    def together(number: int) -> Any:
        barrier.wait()
        return do(number)

    with ThreadPoolExecutor(WRITERS) as threads:
        return list(threads.map(together, range(WRITERS)))


@contextmanager
def another_driver(folder: StoragePath) -> Iterator[subprocess.Popen[str]]:
    """Start another process that drives a study until its input ends."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=["folder", "s3"])
def folder(request: pytest.FixtureRequest) -> StoragePath:
    """Return the storage path of a folder, then of a bucket."""
    if request.param == "folder":
        return storage_path(request.getfixturevalue("tmp_path"))
    return storage_path(f"{request.getfixturevalue('bucket')}/storage")
