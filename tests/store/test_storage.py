"""Tests of storages: values of `--storage`, atomic writes, listings and damaged files."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store.remote import RemotePath, _store
from sclsearch.store.storage import (
    DEFAULT_STORAGE,
    DamagedError,
    LocalPath,
    StoragePath,
    create,
    read,
    read_each,
    storage_folder,
    storage_option,
    storage_path,
    write,
)
from tests.store.conftest import WRITERS, at_once


@pytest.fixture
def one(tmp_path: Path) -> LocalPath:
    return LocalPath(tmp_path / "one.json")


def test_objects_are_read_listed_moved_and_removed(folder: StoragePath) -> None:
    value = {"text": "τ\n\u2028", "number": 5e-324, "list": [1, 2**62, None, {"a": True}]}
    one, two = folder / "one.json", folder / "none" / "two.json"
    assert (folder / "none").names() == []
    write(one, value)
    write(folder / "folder" / "a.json", {})
    write(folder / "a.json", {})
    assert read_each([one, two, one], dict) == [value, None, value]
    assert (one.exists(), two.exists()) == (True, False)
    assert folder.names() == ["a.json", "folder", "one.json"]
    (folder / "a.json").remove()
    (folder / "a.json").remove()
    moved = one.move_into("damaged", "two.json")
    assert str(moved) == str(folder / "damaged" / "two.json")
    assert read(moved, dict) == value
    assert folder.names() == ["damaged", "folder"]


def test_one_of_eight_threads_creates_the_object(
    folder: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = folder / "one.json", Mock(wraps=os.link)
    monkeypatch.setattr(os, "link", link)
    for error in (None, None, OSError(errno.EOPNOTSUPP, "as a mounted bucket says")):
        link.side_effect = error
        created = at_once(lambda writer: create(path, {"writer": writer}))
        assert sum(created) == 1
        assert read(path, dict) == {"writer": created.index(True)}
        write(path, {"writer": None})
        assert read(path, dict) == {"writer": None}
        path.remove()
    assert folder.files() == {}


def test_a_reader_never_sees_a_part_of_what_simultaneous_writers_write(folder: StoragePath) -> None:
    target = folder / "stages" / "one.safetensors"
    contents = [bytes([writer]) * 200_000 for writer in range(WRITERS)]
    target.write(contents[0])

    def put(writer: int) -> set[bytes | None]:
        seen = set()
        for _ in range(3):
            target.write(contents[writer])
            seen.add(target.read())
            target.save_file(lambda file: file.write_bytes(contents[writer]))
            seen.add(target.read())
        return seen

    assert set[bytes | None]().union(*at_once(put)) <= {*contents}
    assert (folder / "stages").names() == ["one.safetensors"]


def test_a_file_whose_writing_breaks_off_is_not_stored(folder: StoragePath) -> None:
    def break_off(file: Path) -> None:
        file.write_bytes(b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        (folder / "weights" / "one.safetensors").save_file(break_off)
    assert (folder / "weights").files() == {}


def test_a_full_disk_or_a_non_finite_number_leaves_no_file(
    one: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            create(one, {"score": number})
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=full))
    with pytest.raises(OSError, match="No space"):
        create(one, {"time": 1})
    assert list(one.path.parent.iterdir()) == []


def test_a_broken_link_and_a_null_are_damaged_files(one: LocalPath) -> None:
    for damage in (lambda: one.path.symlink_to("nothing"), lambda: one.path.write_bytes(b"null")):
        damage()
        assert one.exists()
        with pytest.raises(DamagedError, match=rf"^{one}: .* Move it away\.$"):
            read(one, dict)
        one.path.unlink()


@pytest.mark.parametrize("put", [lambda one: create(one, {}), lambda one: write(one, {})])
def test_a_write_syncs_the_file_before_its_rename_and_the_folder_after_it(
    put: Callable[[LocalPath], object], one: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, one.path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    put(one)
    (first, named_before), (last, named) = synced
    assert first.endswith(".part")
    assert (named_before, last, named) == (False, one.path.parent.name, True)


def test_a_folder_is_absolute_a_uri_has_no_trailing_slash_and_options_are_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    results = LocalPath(tmp_path / "results")
    assert storage_path("results") == storage_path(Path("results")) == results
    assert storage_path("~/results") == LocalPath(tmp_path / "home" / "results")
    assert storage_option(tmp_path / DEFAULT_STORAGE) == storage_option(DEFAULT_STORAGE) == ""
    assert storage_option("my runs") == f" --storage '{tmp_path}/my runs'"
    assert storage_option("s3://bucket/a/") == " --storage s3://bucket/a"
    path = storage_path("gs://bucket/a/b/")
    assert (path, path.local) == (RemotePath("gs://bucket/a/b"), None)
    assert str(path / "runs" / "one.json") == "gs://bucket/a/b/runs/one.json"


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(SclsearchError, match=r"^--storage gs://nobody/….*'sclsearch\[cloud\]'"):
        storage_folder("gs://nobody/folder")


@pytest.mark.parametrize("bucket", ["gs://bucket/", "az://bucket/"])
def test_clients_of_other_clouds_have_the_bucket(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    client: Any = _store(bucket, 0.0)
    assert "bucket" in client.config.values()
