"""An object store that stumbles is asked again; one that refuses is told in one line."""

import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store import remote
from sclsearch.store.driver import sole_driver
from sclsearch.store.objects import check_writable, create, read, read_each, write
from sclsearch.store.remote import RemotePath, StorageError
from sclsearch.store.storage import storage_folder

if TYPE_CHECKING:
    from tests.store.conftest import Fault, Gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
Refuse = Callable[..., "Fault"]


def drop(times: int) -> "Fault":
    """Returns the fault that so many requests get no answer."""
    left = [times]

    def fault(handler: BaseHTTPRequestHandler) -> bool:
        left[0] -= 1
        if left[0] < 0:
            return False
        handler.connection.close()
        return True

    return fault


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (503, "SlowDown")])
def test_a_store_that_is_busy_is_asked_again(
    gate: "Gate", far: RemotePath, refuse: Refuse, status: int, code: str
) -> None:
    gate.fault = refuse(status, code, times=4)
    assert create(far / "one.json", {"whole": True})
    gate.fault = refuse(status, code, times=4)
    assert read(far / "one.json") == {"whole": True}
    gate.fault = refuse(status, code, times=4)
    assert far.names() == ["one.json"]


def test_a_store_that_drops_connections_is_asked_again(gate: "Gate", far: RemotePath) -> None:
    gate.fault = drop(4)
    write(far / "one.json", {"whole": True})
    assert read(far / "one.json") == {"whole": True}


def test_a_seed_run_is_stored_though_the_store_is_away_for_some_seconds(
    gate: "Gate", far: RemotePath
) -> None:
    gate.close()
    back = threading.Timer(4.0, gate.open)
    back.start()
    begun = time.monotonic()
    assert create(far / "one.json", {"whole": True})
    assert time.monotonic() - begun >= 4.0
    back.join()
    assert read(far / "one.json") == {"whole": True}


def test_a_write_whose_answer_was_lost_is_there(gate: "Gate", far: RemotePath) -> None:
    gate.lost_responses = 1
    create(far / "one.json", {"whole": True})
    assert read(far / "one.json") == {"whole": True}
    assert not create(far / "one.json", {"whole": False})


def test_a_store_that_stays_away_is_told_when_patience_ends(
    gate: "Gate", far: RemotePath, bucket: str, refuse: Refuse
) -> None:
    gate.fault = refuse(503, "ServiceUnavailable")
    place = RemotePath(f"{bucket}/one.json", patience=0.2)
    with pytest.raises(
        StorageError,
        match=r"^s3://.*/one.json: its store does not respond: .*, after 0.2 s of retries",
    ):
        place.write(b"{}")


def test_a_store_that_is_not_there_is_told_at_once(
    gate: "Gate", bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 60.0)
    gate.close()
    with pytest.raises(StorageError, match="its store does not respond: Could not connect"):
        storage_folder(f"{bucket}/storage")
    gate.open()


def test_a_wrong_bucket_is_told(bucket: str) -> None:
    with pytest.raises(SclsearchError, match=r"^--storage s3://.*-no/a: its bucket does not exist"):
        storage_folder(f"{bucket}-no/a")


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (400, "ExpiredToken")])
def test_credentials_that_are_refused_are_told_and_not_tried_again(
    gate: "Gate", far: RemotePath, refuse: Refuse, status: int, code: str
) -> None:
    gate.fault = refuse(status, code)
    with pytest.raises(
        SclsearchError, match=rf"refuses these credentials: a test says {code}. Check"
    ) as caught:
        storage_folder(str(far))
    assert "\n" not in str(caught.value)
    assert len(gate.requests) == 1


def test_missing_credentials_are_told(
    gate: "Gate", far: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    remote._files.cache_clear()
    with pytest.raises(SclsearchError, match=r": Unable to locate credentials. Check"):
        storage_folder(str(far))


def test_a_store_that_cannot_be_written_is_read_and_told_at_the_first_write(
    gate: "Gate", far: RemotePath, refuse: Refuse
) -> None:
    write(far / "one.json", {"old": True})
    gate.fault = refuse(403, "AccessDenied", methods="PUT")
    assert storage_folder(str(far)) == str(far)
    assert read(far / "one.json") == {"old": True}
    with pytest.raises(SclsearchError, match=r"driver-.* refuses .*: a test says Access"):
        sole_driver(far).__enter__()
    with pytest.raises(SclsearchError, match=r"sclsearch-check-.* refuses these"):
        check_writable(far)


def test_a_store_without_conditional_writes_is_looked_at_before(
    gate: "Gate", far: RemotePath, refuse: Refuse
) -> None:
    unable = refuse(501, "NotImplemented")

    def fault(handler: BaseHTTPRequestHandler) -> bool:
        return "If-None-Match" in handler.headers and unable(handler)

    gate.fault = fault
    assert create(far / "one.json", {"first": True})
    assert not create(far / "one.json", {"first": False})
    assert read(far / "one.json") == {"first": True}


def test_a_store_that_says_otherwise_that_an_object_is_there_is_understood(
    gate: "Gate", far: RemotePath, refuse: Refuse
) -> None:
    write(far / "one.json", {"first": True})
    gate.fault = refuse(412, "PreconditionFailed", methods="PUT")
    assert not create(far / "one.json", {"first": False})
    with pytest.raises(SclsearchError, match="a test says PreconditionFailed"):
        create(far / "two.json", {})


def test_an_upload_that_breaks_off_is_not_there(
    gate: "Gate", far: RemotePath, bucket: str, tmp_path: Path
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(6 * 2**20))
    upload = partial(shutil.copyfile, file)
    files, path = remote._files("s3"), f"{bucket}/storage/two".removeprefix("s3://")
    name, _, key = path.partition("/")
    begun = files.call_s3("create_multipart_upload", Bucket=name, Key=key)
    files.call_s3(
        "upload_part",
        Bucket=name,
        Key=key,
        PartNumber=1,
        UploadId=begun["UploadId"],
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


def test_a_folder_that_was_made_by_hand_is_no_object_in_it(bucket: str) -> None:
    place = RemotePath(f"{bucket}/storage")
    name = bucket.removeprefix("s3://")
    remote._files("s3").call_s3("put_object", Bucket=name, Key="storage/")
    assert storage_folder(str(place)) == str(place)
    assert place.names() == []
    write(place / "one.json", {})
    assert place.names() == ["one.json"]


def test_many_objects_are_listed_by_one_request_and_read_by_one_each(
    gate: "Gate", far: RemotePath
) -> None:
    for number in range(40):
        write(far / f"{number}.json", {"number": number})
    gate.requests.clear()
    found = far.names()
    assert gate.requests == ["GET"]
    assert len(read_each([far / name for name in found])) == 40
    assert gate.requests == ["GET"] * 41


def test_a_driver_outlives_a_store_that_is_away(
    gate: "Gate", far: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.store.driver.BEAT_SECONDS", 0.1)
    with sole_driver(far):
        before = heart(far)["time"]
        gate.close()
        time.sleep(1.0)
        gate.open()
        end = time.monotonic() + 60
        while heart(far)["time"] <= before:
            assert time.monotonic() < end
            time.sleep(0.1)
    assert far.names() == []


def heart(folder: RemotePath) -> Any:
    (name,) = folder.names()
    return read(folder / name)
