"""Tests of tracking URIs, the preparation of databases and the MLflow UI command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import (
    find_tracking_uri,
    masked,
    prepare_database,
    tracking_uri,
    ui_command,
)
from sclsearch.tracking.writer import Writer


def test_the_option_precedes_the_environment_and_relative_paths_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for option, variable, expected in (
        ("http://option:5000", "https://environment", "http://option:5000"),
        (None, "https://environment", "https://environment"),
        (None, "", f"sqlite:///{tmp_path}/results/mlflow.db"),
        ("sqlite:///a%3F%2541%.db?timeout=5", "", f"sqlite:///{tmp_path}/a%3F%2541%.db?timeout=5"),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
        assert tracking_uri(option, Path("results")) == expected
    assert find_tracking_uri("none", tmp_path) is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "localhost:5000")
    with pytest.raises(SclsearchError, match=r"^MLFLOW_TRACKING_URI: .* got 'localhost:5000'"):
        tracking_uri(None, tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    bucket = "s3://bucket/storage"
    assert find_tracking_uri(None, bucket) is None
    with pytest.raises(SclsearchError, match=rf"^--storage {bucket}: an object store"):
        tracking_uri(None, bucket)


def test_passwords_are_masked() -> None:
    for uri, expected in (
        ("https://me:se/cr@et@host:1/x", "https://***@host:1/x"),
        ("mysql://host/db?user=me&password=secret", "mysql://host/db?user=me&password=***"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
    ):
        assert masked(f"no answer from {uri} today") == f"no answer from {expected} today"


@pytest.mark.slow
def test_two_processes_prepare_one_valid_database_without_output(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    program = f"from sclsearch.tracking import server; server.prepare_database({uri!r})"
    command = [sys.executable, "-c", program]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    processes = [subprocess.Popen(command, stdout=pipe, stderr=both) for _ in range(2)]
    for process in processes:
        assert (process.communicate()[0], process.returncode) == (b"", 0)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mlflow.db"]
    writer = Writer(uri)
    writer.write(RunRecord("s"))
    assert writer.created == 1


def test_a_file_that_is_no_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"someone's file")
    os.mkfifo(tmp_path / "pipe")
    for name, fault in (("file", "must be a SQLite"), ("pipe", "cannot be read: not a regular")):
        with pytest.raises(SclsearchError, match=f"^--tracking: {tmp_path / name} {fault}"):
            prepare_database(f"sqlite:///{tmp_path / name}")
    assert (tmp_path / "file").read_bytes() == b"someone's file"


def test_the_ui_listens_only_on_localhost_and_its_command_hides_the_uri() -> None:
    uri = "postgresql://me:secret@host/db"
    command, environment = ui_command(uri, 5001)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "5001"
    assert not any("secret" in word for word in command)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == uri
    with pytest.raises(SclsearchError, match=r"^http://\*\*\*@host: is a server"):
        ui_command("http://me:secret@host", 5001)
