"""Places to store at: a folder, a bucket, and a bucket behind a server that can be broken."""

import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sclsearch.store import remote
from sclsearch.store.remote import Remote
from sclsearch.store.storage import StoragePath, storage_path

Fault = Callable[[BaseHTTPRequestHandler], bool]
# Headers that concern one connection alone.
BETWEEN = {"host", "expect", "connection", "transfer-encoding", "date", "server"}
ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"


class Gate:
    """A server in front of the S3 server that passes requests on, breaks them or is down.

    Attributes:
        fault: Answers a request in place of the server, or returns False to pass it on.
        record_failure: How many answers of the server do not arrive.
        asked: Methods of the requests so far.
    """

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.fault: Fault = lambda _: False
        self.record_failure = 0
        self.asked: list[str] = []
        self.lock = threading.Lock()
        self.port = 0
        self.open()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Begins to listen, always at the same port."""
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                super().handle_one_request()
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Says nothing."""

            def answer(self) -> None:
                gate.answer(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        """Refuses connections."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self.lock:
            self.asked.append(handler.command)
            if self.fault(handler):
                return
        headers = {n: v for n, v in handler.headers.items() if n.lower() not in BETWEEN}
        behind = HTTPConnection(self.behind.removeprefix("http://"), timeout=30)
        behind.request(handler.command, handler.path, body or None, headers)
        found = behind.getresponse()
        status, told, content = found.status, dict(found.getheaders()), found.read()
        behind.close()
        with self.lock:
            lost = self.record_failure > 0
            self.record_failure -= lost
        if lost:
            handler.connection.close()
            return
        send(handler, status, content, told)


def send(
    handler: BaseHTTPRequestHandler, status: int, content: bytes, told: dict[str, str]
) -> None:
    handler.send_response(status)
    for name, value in told.items():
        if name.lower() not in BETWEEN:
            handler.send_header(name, value)
    if "Content-Length" not in told:
        handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content)


@pytest.fixture
def refuse() -> Callable[..., Fault]:
    """Returns what makes a fault: the first so many requests of some methods are refused."""

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
    """Returns the server between the tests and the bucket."""
    gate = Gate(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", gate.address)
    # The library's own attempts take half a minute before ours are heard of.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.05)
    remote._files.cache_clear()
    yield gate
    gate.close()


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest) -> str:
    """Returns a folder, then a bucket, as `--storage` takes them."""
    if request.param == "folder":
        return str(request.getfixturevalue("tmp_path"))
    return f"{request.getfixturevalue('bucket')}/storage"


@pytest.fixture
def place(storage: str) -> StoragePath:
    """Returns the place of a folder, then of a bucket."""
    return storage_path(storage)


@pytest.fixture
def far(gate: Gate, bucket: str) -> Remote:
    """Returns a place behind the gate, asked for some seconds."""
    return Remote(f"{bucket}/storage", patience=20.0)
