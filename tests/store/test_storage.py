"""A storage is a folder or a place in an object store, and anything else is refused."""

import importlib.util
import os
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store.remote import Remote, _files
from sclsearch.store.storage import DEFAULT_STORAGE, storage_folder, storage_option, storage_path


def test_a_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert storage_path("results") == storage_path(Path("results")) == tmp_path / "results"
    assert storage_path("~/results") == tmp_path / "home" / "results"


@pytest.mark.parametrize(
    ("storage", "uri"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("gs://bucket/a/b/", "gs://bucket/a/b"),
    ],
)
def test_a_place_in_an_object_store_is_taken_as_it_is(storage: str, uri: str) -> None:
    assert storage_path(storage) == Remote(uri)
    assert str(storage_path(storage) / "runs" / "one.json") == f"{uri}/runs/one.json"
    assert (storage_path(storage) / "runs").name == "runs"


@pytest.mark.parametrize(
    "storage", ["http://host/folder", "s3://", "s3:///", Path("s3://bucket/folder")], ids=str
)
def test_another_uri_and_one_that_lost_a_slash_are_refused(storage: str | Path) -> None:
    with pytest.raises(SclsearchError, match=r"^--storage .*: it must be a folder, s3://bucket/"):
        storage_path(storage)


def test_a_home_of_nobody_is_refused() -> None:
    with pytest.raises(SclsearchError, match=r"^--storage ~nosuchuser/x: .* Give its whole path"):
        storage_path("~nosuchuser/x")


def test_a_folder_is_made_where_it_is_asked_for(tmp_path: Path) -> None:
    assert storage_folder(tmp_path / "a" / "b", make=False) == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()
    assert storage_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


def test_a_storage_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SclsearchError, match=r"^--storage .*file/storage: it must be a folder"):
        storage_folder(tmp_path / "file" / "storage")


@pytest.mark.parametrize("make", [True, False])
def test_a_file_is_no_storage(tmp_path: Path, make: bool) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SclsearchError, match=r"^--storage .*file: it must be a folder"):
        storage_folder(tmp_path / "file", make=make)


def test_a_storage_is_named_for_a_shell_unless_it_is_the_default_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage_option(tmp_path / DEFAULT_STORAGE) == storage_option(DEFAULT_STORAGE) == ""
    assert storage_option("my runs") == f" --storage '{tmp_path}/my runs'"
    assert storage_option("s3://bucket/a/") == " --storage s3://bucket/a"


@pytest.mark.skipif(
    importlib.util.find_spec("gcsfs") is not None, reason="the package is installed"
)
def test_a_missing_package_is_named_with_what_installs_it() -> None:
    _files.cache_clear()
    with pytest.raises(
        SclsearchError, match=r"^--storage gs://…: gcsfs must be .* pip install 'sclsearch\[gs\]'"
    ):
        storage_folder("gs://bucket")


def test_a_folder_that_may_only_be_read_is_refused_where_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # root may write anywhere
    assert storage_folder(tmp_path, make=False) == tmp_path
    with pytest.raises(SclsearchError, match=r"can be written, but: .*denied"):
        storage_folder(tmp_path)
