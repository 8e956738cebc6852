"""Storages for tests: a folder, a bucket, and a bucket behind a proxy that injects faults."""

import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sclsearch.store import remote
from sclsearch.store.remote import RemotePath
from sclsearch.store.storage import StoragePath, storage_path

Fault = Callable[[BaseHTTPRequestHandler], bool]
# Headers that apply to a single connection.
HOP_BY_HOP = {"host", "expect", "connection", "transfer-encoding", "date", "server"}
ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"


class Gate:
    """Proxy of the S3 server that forwards requests, injects faults or is down.

    Attributes:
        fault: Responds to a request itself, or returns False to forward it.
        lost_responses: Number of responses to drop.
        requests: Methods of the requests so far.
    """

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.fault: Fault = lambda _: False
        self.lost_responses = 0
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.port = 0
        self.open()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Listen, always on the same port."""
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                super().handle_one_request()
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Log nothing."""

            def answer(self) -> None:
                gate.answer(self)

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
            if self.fault(handler):
                return
        headers = {n: v for n, v in handler.headers.items() if n.lower() not in HOP_BY_HOP}
        behind = HTTPConnection(self.behind.removeprefix("http://"), timeout=30)
        behind.request(handler.command, handler.path, body or None, headers)
        response = behind.getresponse()
        status, content = response.status, response.read()
        response_headers = dict(response.getheaders())
        behind.close()
        with self.lock:
            lost = self.lost_responses > 0
            self.lost_responses -= lost
        if lost:
            handler.connection.close()
            return
        send(handler, status, content, response_headers)


def send(
    handler: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str]
) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        if name.lower() not in HOP_BY_HOP:
            handler.send_header(name, value)
    if "Content-Length" not in headers:
        handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content)


@pytest.fixture
def refuse() -> Callable[..., Fault]:
    """Return a function that makes a fault: the first requests get an error status."""

    def refuse(status: int, code: str, times: float = float("inf"), methods: str = "") -> Fault:
        left = [times]

        def fault(handler: BaseHTTPRequestHandler) -> bool:
            if left[0] <= 0 or (methods and handler.command not in methods.split()):
                return False
            left[0] -= 1
            content = ERROR.format(code=code, message=f"a test says {code}").encode()
            send(handler, status, content, {"Content-Type": "application/xml"})
            return True

        return fault

    return refuse


@pytest.fixture
def gate(s3_server: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Yield a proxy between the tests and the bucket."""
    gate = Gate(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", gate.address)
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
