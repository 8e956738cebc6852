"""Tests of the object store: retries, refused requests and interrupted uploads."""

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import boto3
import pytest
from werkzeug import Request
from werkzeug.serving import make_server

from sclsearch.errors import SclsearchError
from sclsearch.store import remote
from sclsearch.store.lock import sole_driver
from sclsearch.store.remote import RemotePath, StorageError
from sclsearch.store.storage import check_writable, create, read, storage_folder, write
from sclsearch.store.studies import StudyStore
from tests.conftest import make_bucket
from tests.processes import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

Fault = Callable[[Request], str]
ERROR = "<?xml version='1.0'?><Error><Code>{0}</Code><Message>a test says {0}</Message></Error>"


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
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.05)
    remote._store.cache_clear()
    make_bucket(bucket.removeprefix("s3://"))
    gate.requests.clear()
    yield gate
    gate.close()


@pytest.fixture
def far(gate: Gate, bucket: str) -> RemotePath:
    """Return a path behind the proxy, with retries for 20 seconds."""
    return RemotePath(f"{bucket}/storage", patience=20.0)


@pytest.mark.parametrize("answer", ["500 InternalError", "503 SlowDown", "dropped"])
def test_requests_to_a_busy_store_are_retried(gate: Gate, far: RemotePath, answer: str) -> None:
    gate.fault = times(4, answer)
    assert create(far / "one.json", {"whole": True})
    gate.fault = times(4, answer)
    assert read(far / "one.json", dict) == {"whole": True}
    gate.fault = times(4, answer)
    assert far.names() == ["one.json"]


def test_an_object_that_changes_during_a_move_stays(
    far: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(far / "one.json", {"old": True})

    def write_meanwhile(place: RemotePath, content: bytes) -> None:
        monkeypatch.undo()
        place.write(content)
        write(far / "one.json", {"new": True})

    monkeypatch.setattr(RemotePath, "write", write_meanwhile)
    with pytest.raises(FileNotFoundError):
        (far / "one.json").move_into("retried", "old.json")
    assert read(far / "one.json", dict) == {"new": True}
    assert far.names() == ["one.json"]


def test_an_outage_is_survived_or_is_an_error_after_the_retries(
    gate: Gate, far: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.store.lock.BEAT_SECONDS", 0.1)
    with sole_driver(far) as lost:
        (claim,) = far.names()
        gate.close()
        back = threading.Timer(3.0, gate.open)
        back.start()
        started = time.monotonic()
        assert create(far / "one.json", {"whole": True})
        assert time.monotonic() - started >= 3.0
        back.join()
        last = read(far / claim, dict)
        wait_for("a heartbeat", lambda: read(far / claim, dict) != last, 60)
        assert not lost.is_set()
    assert far.names() == ["one.json"]
    assert read(far / "one.json", dict) == {"whole": True}
    gate.fault = lambda _: "503 ServiceUnavailable"
    message = r"^s3://.*/two: its store does not respond: .*, after 0.2 s of retries"
    with pytest.raises(StorageError, match=message):
        RemotePath(str(far / "two"), patience=0.2).write(b"{}")
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 60.0)
    with pytest.raises(StorageError, match="its store does not respond: "):
        storage_folder(str(far))  # without retries


def test_a_write_whose_response_was_lost_is_stored_once(gate: Gate, far: RemotePath) -> None:
    gate.fault = times(1, "lost")
    create(far / "one.json", {"whole": True})
    assert read(far / "one.json", dict) == {"whole": True}
    assert not create(far / "one.json", {"whole": False})


def test_refused_credentials_are_an_error_without_retries(gate: Gate, far: RemotePath) -> None:
    for answer in ("403 AccessDenied", "400 ExpiredToken"):
        gate.requests.clear()
        gate.fault = times(100, answer)
        message = rf"refuses these credentials: a test says {answer[4:]}. Check"
        with pytest.raises(SclsearchError, match=message) as caught:
            storage_folder(str(far))
        assert "\n" not in str(caught.value)
        assert len(gate.requests) == 1


def test_missing_credentials_and_a_missing_bucket_are_errors(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SclsearchError, match=r"^--storage s3://.*-no/a: its bucket does not exist"):
        storage_folder(f"{bucket}-no/a")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    remote._store.cache_clear()
    with pytest.raises(SclsearchError, match=r"boto3 finds no AWS credentials"):
        storage_folder(f"{bucket}/storage")


def test_the_credentials_of_a_profile_are_used(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "credentials"
    config.write_text("[mine]\naws_access_key_id = key-of-mine\naws_secret_access_key = b\n")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    remote._store.cache_clear()
    place = RemotePath(f"{bucket}/storage/one", 2.0)
    assert place.create(b"1")
    assert place.read() == b"1"


def test_a_bucket_of_aws_tells_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(request: Any, **_: object) -> None:
        assert request.full_url == "https://s3.amazonaws.com/mine"
        headers = Message()
        headers["x-amz-bucket-region"] = "eu-north-1"
        raise HTTPError(request.full_url, 403, "Forbidden", headers, None)

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.setattr(remote, "urlopen", forbidden)
    client: Any = remote._store("s3://mine/", 0.0)
    assert client.config["region"] == "eu-north-1"
    remote._store.cache_clear()


def test_a_read_only_store_can_be_read_and_the_first_write_is_an_error(
    gate: Gate, far: RemotePath
) -> None:
    write(far / "one.json", {"old": True})
    gate.fault = lambda request: "403 AccessDenied" * (request.method == "PUT")
    assert storage_folder(str(far)) == str(far)
    assert read(far / "one.json", dict) == {"old": True}
    with pytest.raises(SclsearchError, match=r"driver-.* refuses .*: a test says Access"):
        sole_driver(far).__enter__()
    with pytest.raises(SclsearchError, match=r"sclsearch-check-.* refuses these"):
        check_writable(far)


def test_objects_are_created_once_by_stores_with_other_conditional_writes(
    gate: Gate, far: RemotePath
) -> None:
    gate.fault = lambda request: "501 NotImplemented" * ("If-None-Match" in request.headers)
    assert create(far / "one.json", {"first": True})
    assert not create(far / "one.json", {"first": False})
    gate.fault = lambda request: "412 PreconditionFailed" * (request.method == "PUT")
    assert not create(far / "one.json", {"first": False})
    assert read(far / "one.json", dict) == {"first": True}
    with pytest.raises(SclsearchError, match="a test says PreconditionFailed"):
        create(far / "two.json", {})


def test_an_interrupted_upload_leaves_no_object(
    gate: Gate, far: RemotePath, tmp_path: Path
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(6 * 2**20))
    upload = partial(shutil.copyfile, file)
    gate.fault = lambda _: "dropped"
    with pytest.raises(StorageError):
        RemotePath(str(far / "one"), patience=0.2).save_file(upload)
    gate.fault = lambda _: ""
    assert far.names() == []
    (far / "one").save_file(upload)
    assert far.names() == ["one"]
    assert (far / "one").read() == file.read_bytes()


def test_a_folder_created_by_hand_is_not_listed_in_itself(far: RemotePath, bucket: str) -> None:
    name = bucket.removeprefix("s3://")
    boto3.client("s3").put_object(Bucket=name, Key="storage/")
    assert storage_folder(str(far)) == str(far)
    assert far.names() == []


def test_credentials_that_may_not_delete_are_enough_for_a_search_and_its_repetition(
    gate: Gate, far: RemotePath
) -> None:
    gate.fault = lambda request: "403 AccessDenied" * (request.method in {"DELETE", "POST"})
    check_writable(far)
    for _ in range(2):
        with sole_driver(far):
            assert len(far.names()) >= 1
    store = StudyStore(str(far), "mine")
    store.weights("1" * 64).write(b"old")
    store.delete_other_weights("0" * 64)
    assert store.weights("1" * 64).read() == b"old"
