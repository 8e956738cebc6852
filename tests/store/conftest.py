"""Storages for tests: a folder, a bucket, and a bucket behind a proxy that injects faults."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import pytest
from werkzeug import Request
from werkzeug.serving import make_server

from sclsearch.store import remote
from sclsearch.store.remote import RemotePath
from sclsearch.store.storage import StoragePath, storage_path

Fault = Callable[[Request], str]
WRITERS = 8
ERROR = "<?xml version='1.0'?><Error><Code>{0}</Code><Message>a test says {0}</Message></Error>"
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


class Gate:
    """S3 server in this process that injects faults.

    Attributes:
        fault: Returns the answer to a request: a status and an error code, `dropped`, `lost` for
            a request that is carried out and whose response is dropped, or no text for no fault.
        requests: Methods of the requests so far.
    """

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self.store = DomainDispatcherApplication(create_backend_app)
        self.fault: Fault = lambda _: ""
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.port = 0
        self.open()

    def open(self) -> None:
        """Listen, always on the same port."""
        self.server = make_server("127.0.0.1", self.port, self, threaded=True)
        self.port = self.server.port
        threading.Thread(target=self.server.serve_forever, args=(0.05,)).start()

    def close(self) -> None:
        """Refuse connections."""
        self.server.shutdown()
        self.server.server_close()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        request = Request(environ)
        environ["wsgi.input"] = BytesIO(request.get_data())
        with self.lock:
            self.requests.append(request.method)
            answer = self.fault(request)
        if answer[:3].isdigit():
            start_response(answer, [])
            return [ERROR.format(answer[4:]).encode()]
        content = [] if answer == "dropped" else [*self.store(environ, start_response)]
        if answer:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionError(answer)
        return content


def times(count: int, answer: str) -> Fault:
    """Return a fault by which the first requests get an answer."""
    answers = iter([answer] * count)
    return lambda _: next(answers, "")


@pytest.fixture
def gate(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Yield a server with the bucket that injects faults."""
    gate = Gate()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{gate.port}")
    # The library's own retries take half a minute.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.05)
    remote._files.cache_clear()
    remote._files("s3").mkdir(bucket.removeprefix("s3://"))
    gate.requests.clear()
    yield gate
    gate.close()


@pytest.fixture(params=["folder", "s3"])
def folder(request: pytest.FixtureRequest) -> StoragePath:
    """Return the storage path of a folder, then of a bucket."""
    if request.param == "folder":
        return storage_path(request.getfixturevalue("tmp_path"))
    return storage_path(f"{request.getfixturevalue('bucket')}/storage")


@pytest.fixture
def far(gate: Gate, bucket: str) -> RemotePath:
    """Return a path behind the proxy, with retries for 20 seconds."""
    return RemotePath(f"{bucket}/storage", patience=20.0)
