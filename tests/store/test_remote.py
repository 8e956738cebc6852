"""Tests of the object store: retries, refused requests and interrupted uploads."""

import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store import remote
from sclsearch.store.lock import sole_driver
from sclsearch.store.remote import RemotePath, StorageError
from sclsearch.store.storage import check_writable, create, read, read_each, storage_folder, write
from tests.processes import wait_for
from tests.store.conftest import Fault, Gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
Refuse = Callable[..., Fault]


def drop(times: int) -> Fault:
    """Return a fault that drops the first requests."""
    left = [times]

    def fault(handler: BaseHTTPRequestHandler) -> bool:
        left[0] -= 1
        if left[0] < 0:
            return False
        handler.connection.close()
        return True

    return fault


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (503, "SlowDown")])
def test_requests_to_a_busy_store_are_retried(
    gate: Gate, far: RemotePath, refuse: Refuse, status: int, code: str
) -> None:
    gate.fault = refuse(status, code, times=4)
    assert create(far / "one.json", {"whole": True})
    gate.fault = refuse(status, code, times=4)
    assert read(far / "one.json") == {"whole": True}
    gate.fault = refuse(status, code, times=4)
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
    assert read(far / "one.json") == {"new": True}
    assert far.names() == ["one.json"]


def test_dropped_connections_are_retried(gate: Gate, far: RemotePath) -> None:
    gate.fault = drop(4)
    write(far / "one.json", {"whole": True})
    assert read(far / "one.json") == {"whole": True}


def test_an_object_is_stored_despite_an_outage_of_some_seconds(gate: Gate, far: RemotePath) -> None:
    gate.close()
    back = threading.Timer(4.0, gate.open)
    back.start()
    started = time.monotonic()
    assert create(far / "one.json", {"whole": True})
    assert time.monotonic() - started >= 4.0
    back.join()
    assert read(far / "one.json") == {"whole": True}


def test_a_write_whose_response_was_lost_is_stored_once(gate: Gate, far: RemotePath) -> None:
    gate.lost_responses = 1
    create(far / "one.json", {"whole": True})
    assert read(far / "one.json") == {"whole": True}
    assert not create(far / "one.json", {"whole": False})


def test_a_lasting_outage_is_an_error_after_the_retries(
    gate: Gate, far: RemotePath, bucket: str, refuse: Refuse
) -> None:
    gate.fault = refuse(503, "ServiceUnavailable")
    path = RemotePath(f"{bucket}/one.json", patience=0.2)
    with pytest.raises(
        StorageError,
        match=r"^s3://.*/one.json: its store does not respond: .*, after 0.2 s of retries",
    ):
        path.write(b"{}")


def test_an_unreachable_storage_folder_is_an_error_without_retries(
    gate: Gate, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 60.0)
    gate.close()
    with pytest.raises(StorageError, match="its store does not respond: Could not connect"):
        storage_folder(f"{bucket}/storage")
    gate.open()


def test_a_missing_bucket_is_an_error(bucket: str) -> None:
    with pytest.raises(SclsearchError, match=r"^--storage s3://.*-no/a: its bucket does not exist"):
        storage_folder(f"{bucket}-no/a")


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (400, "ExpiredToken")])
def test_refused_credentials_are_an_error_without_retries(
    gate: Gate, far: RemotePath, refuse: Refuse, status: int, code: str
) -> None:
    gate.fault = refuse(status, code)
    with pytest.raises(
        SclsearchError, match=rf"refuses these credentials: a test says {code}. Check"
    ) as caught:
        storage_folder(str(far))
    assert "\n" not in str(caught.value)
    assert len(gate.requests) == 1


def test_missing_credentials_are_an_error(
    gate: Gate, far: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    remote._files.cache_clear()
    with pytest.raises(SclsearchError, match=r": Unable to locate credentials. Check"):
        storage_folder(str(far))


def test_a_read_only_store_can_be_read_and_the_first_write_is_an_error(
    gate: Gate, far: RemotePath, refuse: Refuse
) -> None:
    write(far / "one.json", {"old": True})
    gate.fault = refuse(403, "AccessDenied", methods="PUT")
    assert storage_folder(str(far)) == str(far)
    assert read(far / "one.json") == {"old": True}
    with pytest.raises(SclsearchError, match=r"driver-.* refuses .*: a test says Access"):
        sole_driver(far).__enter__()
    with pytest.raises(SclsearchError, match=r"sclsearch-check-.* refuses these"):
        check_writable(far)


def test_objects_are_created_once_without_conditional_writes(
    gate: Gate, far: RemotePath, refuse: Refuse
) -> None:
    unable = refuse(501, "NotImplemented")

    def fault(handler: BaseHTTPRequestHandler) -> bool:
        return "If-None-Match" in handler.headers and unable(handler)

    gate.fault = fault
    assert create(far / "one.json", {"first": True})
    assert not create(far / "one.json", {"first": False})
    assert read(far / "one.json") == {"first": True}


def test_status_412_means_an_existing_object_and_otherwise_is_an_error(
    gate: Gate, far: RemotePath, refuse: Refuse
) -> None:
    write(far / "one.json", {"first": True})
    gate.fault = refuse(412, "PreconditionFailed", methods="PUT")
    assert not create(far / "one.json", {"first": False})
    with pytest.raises(SclsearchError, match="a test says PreconditionFailed"):
        create(far / "two.json", {})


def test_an_interrupted_upload_leaves_no_object(
    gate: Gate, far: RemotePath, bucket: str, tmp_path: Path
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(6 * 2**20))
    upload = partial(shutil.copyfile, file)
    files, path = remote._files("s3"), f"{bucket}/storage/two".removeprefix("s3://")
    name, _, key = path.partition("/")
    multipart = files.call_s3("create_multipart_upload", Bucket=name, Key=key)
    files.call_s3(
        "upload_part",
        Bucket=name,
        Key=key,
        PartNumber=1,
        UploadId=multipart["UploadId"],
        Body=file.read_bytes(),
    )
    gate.fault = drop(10**9)
    with pytest.raises(StorageError):
        RemotePath(str(far / "one"), patience=0.2).save_file(upload)
    gate.fault = drop(0)
    assert far.names() == []
    (far / "one").save_file(upload)
    assert far.names() == ["one"]
    assert (far / "one").read() == file.read_bytes()


def test_the_placeholder_object_of_a_folder_is_not_listed(bucket: str) -> None:
    path = RemotePath(f"{bucket}/storage")
    name = bucket.removeprefix("s3://")
    remote._files("s3").call_s3("put_object", Bucket=name, Key="storage/")
    assert storage_folder(str(path)) == str(path)
    assert path.names() == []
    write(path / "one.json", {})
    assert path.names() == ["one.json"]


def test_objects_are_listed_in_one_request_and_read_in_one_each(
    gate: Gate, far: RemotePath
) -> None:
    for number in range(40):
        write(far / f"{number}.json", {"number": number})
    gate.requests.clear()
    names = far.names()
    assert gate.requests == ["GET"]
    assert len(read_each([far / name for name in names])) == 40
    assert gate.requests == ["GET"] * 41


def test_a_driver_survives_an_outage_of_the_store(
    gate: Gate, far: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.store.lock.BEAT_SECONDS", 0.1)
    with sole_driver(far):
        before = lock_record(far)["time"]
        gate.close()
        time.sleep(1.0)
        gate.open()
        wait_for("a beat", lambda: lock_record(far)["time"] > before, 60)
    assert far.names() == []


def lock_record(folder: RemotePath) -> Any:
    (name,) = folder.names()
    return read(folder / name)
