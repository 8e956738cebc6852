"""Storages for tests: a folder, a bucket, and a bucket behind a proxy that injects faults."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sclsearch.store import remote
from sclsearch.store.remote import RemotePath
from sclsearch.store.storage import StoragePath, storage_path
from sclsearch.store.studies import StudyRecord

Fault = Callable[[BaseHTTPRequestHandler], str]
WRITERS = 8
# Headers that apply to a single connection.
HOP_BY_HOP = {"host", "expect", "connection", "transfer-encoding", "date", "server"}
ERROR = "<?xml version='1.0'?><Error><Code>{0}</Code><Message>a test says {0}</Message></Error>"
HOLD = """
import sys
from sclsearch.store.lock import sole_driver
from sclsearch.store.storage import storage_path

with sole_driver(storage_path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
RECORD = StudyRecord(
    name="first",
    identity={
        **{"task": "cola", "model": "bert", "protocol": "plain", "size": None},
        "space": {"parameters": [], "tau": [0.1, 0.3]},
    },
    training={"method": "scl", "metric": "mcc", "data": "d", "engine": 1, "evaluate": 20},
    origin={"data_dir": "here", "rule": "mean", "notes": []},
    open_configurations=3,
    created=1_700_000_000.5,
)


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
    """Proxy of the S3 server that forwards requests, injects faults or is down.

    Attributes:
        fault: Returns the answer to a request: a status and an error code, `dropped`, `lost` for
            a request that is forwarded and whose response is dropped, or no text to forward it.
        requests: Methods of the requests so far.
    """

    def __init__(self, behind: str) -> None:
        self.behind = behind.removeprefix("http://")
        self.fault: Fault = lambda _: ""
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.port = 0
        self.open()

    def open(self) -> None:
        """Listen, always on the same port."""
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Log nothing."""

            def answer(self) -> None:
                gate.answer(self)
                self.close_connection = True

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        """Refuse connections."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self.lock:
            self.requests.append(handler.command)
            answer = self.fault(handler)
        if answer == "dropped":
            handler.connection.close()
            return
        if answer in {"", "lost"}:
            status, content, headers = self.forward(handler, body)
        else:
            status, content, headers = int(answer[:3]), ERROR.format(answer[4:]).encode(), {}
        if answer == "lost":
            handler.connection.close()
            return
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(content)

    def forward(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        behind = HTTPConnection(self.behind, timeout=30)
        behind.request(handler.command, handler.path, body or None, end_to_end(handler.headers))
        response = behind.getresponse()
        found = response.status, response.read(), end_to_end(response.headers)
        behind.close()
        return found


def end_to_end(headers: Message) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


def times(count: int, answer: str) -> Fault:
    """Return a fault by which the first requests get an answer."""
    answers = iter([answer] * count)
    return lambda _: next(answers, "")


@pytest.fixture
def gate(s3_server: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Yield a proxy between the tests and the bucket."""
    gate = Gate(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{gate.port}")
    # The library's own retries take half a minute.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.05)
    remote._files.cache_clear()
    yield gate
    gate.close()


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest) -> str:
    """Return the value of `--storage` for a folder, then for a bucket."""
    if request.param == "folder":
        return str(request.getfixturevalue("tmp_path"))
    return f"{request.getfixturevalue('bucket')}/storage"


@pytest.fixture
def folder(storage: str) -> StoragePath:
    """Return the storage path of a folder, then of a bucket."""
    return storage_path(storage)


@pytest.fixture
def far(gate: Gate, bucket: str) -> RemotePath:
    """Return a path behind the proxy, with retries for 20 seconds."""
    return RemotePath(f"{bucket}/storage", patience=20.0)
