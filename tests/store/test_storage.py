"""Tests of `--storage` values: folders and object store URIs."""

import importlib.util
import os
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.store.remote import RemotePath, _files
from sclsearch.store.storage import (
    DEFAULT_STORAGE,
    LocalPath,
    storage_folder,
    storage_option,
    storage_path,
)


def test_a_folder_is_absolute_and_its_option_is_quoted_for_a_shell(
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


def test_a_uri_loses_only_its_trailing_slash_and_an_invalid_one_is_refused() -> None:
    for uri in ("s3://bucket", "gs://bucket/a/b"):
        path = storage_path(f"{uri}/")
        assert (path, path.local) == (RemotePath(uri), None)
        assert str(path / "runs" / "one.json") == f"{uri}/runs/one.json"
        assert (path / "runs").name == "runs"
    for storage in ("http://host/a", "s3://", "s3:///", Path("s3://bucket/a"), "~nosuchuser/x"):
        with pytest.raises(SclsearchError, match=rf"^--storage {storage}: "):
            storage_path(storage)


@pytest.mark.skipif(
    importlib.util.find_spec("gcsfs") is not None, reason="the package is installed"
)
def test_a_missing_package_is_named_with_its_extra() -> None:
    _files.cache_clear()
    with pytest.raises(SclsearchError, match=r"^--storage gs://…: gcsfs .*'sclsearch\[gs\]'"):
        storage_folder("gs://bucket")


def test_a_folder_is_created_only_on_request_and_must_be_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage_folder(tmp_path / "a" / "b", make=False) == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()
    assert storage_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for storage in (tmp_path / "file", tmp_path / "file" / "storage"):
        for make in (True, False):
            with pytest.raises(SclsearchError, match=f"^--storage {storage}: is not a folder"):
                storage_folder(storage, make=make)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # root may write anywhere
    assert storage_folder(tmp_path, make=False) == tmp_path
    with pytest.raises(SclsearchError, match="denied"):
        storage_folder(tmp_path)
