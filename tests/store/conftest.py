"""Storages for tests: a folder and a bucket, and writers beside each other."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sclsearch.store.storage import StoragePath, storage_path

WRITERS = 8


def at_once(do: Callable[[int], Any]) -> list[Any]:
    """Return the results of eight threads that call a function at the same time."""
    barrier = threading.Barrier(WRITERS)

    def together(number: int) -> Any:
        barrier.wait()
        return do(number)

    with ThreadPoolExecutor(WRITERS) as threads:
        return list(threads.map(together, range(WRITERS)))


@pytest.fixture(params=["folder", "s3"])
def folder(request: pytest.FixtureRequest) -> StoragePath:
    """Return the storage path of a folder, then of a bucket."""
    if request.param == "folder":
        return storage_path(request.getfixturevalue("tmp_path"))
    return storage_path(f"{request.getfixturevalue('bucket')}/storage")
