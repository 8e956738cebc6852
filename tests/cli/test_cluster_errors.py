"""Tests of errors that are found before a command reaches the cluster."""

import socket
import time
from pathlib import Path

import pytest

from tests.workspace import Call


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore after the test the variables that a connection to a cluster sets."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:2")


TUNE = "tune --method scl --task cola --study mine --storage /shared/storage"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("tnue", "Unknown command for a cluster 'tnue'. Did you mean 'tune'? Known: confirm, "),
        ("ls methods", "Unknown command for a cluster 'ls'. Known: confirm, reproduce, train, tun"),
        ("tune --method scl --task cola", "tune: --study is missing."),
        (f"{TUNE} --stroage x", "No such option: --stroage"),
        (f"{TUNE} --storage here", "--storage here: is a relative path"),
        (f"{TUNE} --storage ~/here", "--storage ~/here: is a relative path"),
        (f"{TUNE} --space ./mine.yaml", "--space ./mine.yaml: is a relative path"),
        (f"{TUNE} --method ./mine.py:Mine", "--method ./mine.py: is a relative path"),
        (f"{TUNE} --model ./encoder", "--model ./encoder: is a relative path"),
        (f"{TUNE} --model encoder", "--model encoder: is a relative path"),
        (f"{TUNE} --task a.csv --text t --label l", "--task a.csv: is a relative path"),
        (f"{TUNE} --tracking sqlite:///m.db", "--tracking m.db: is a relative path"),
        (f"{TUNE} --tracking http://me:secret@ml", "--tracking: contains a password"),
        (f"{TUNE} --address auto", "--address: a job runs inside its cluster."),
        ("reproduce gunel/table-4", "--storage sclsearch-storage: is a relative path"),
    ],
)
def test_a_command_that_the_cluster_could_not_run_is_refused(
    sclsearch: Call, command: str, message: str
) -> None:
    for dashes in ((), ("--",)):
        result = sclsearch("submit", "--cluster", "http://127.0.0.1:1", *dashes, *command.split())
        assert result.returncode == 2
        assert message in result.stderr
        assert "secret" not in result.stderr
        assert "must answer" not in result.stderr


def test_all_errors_are_reported_together(sclsearch: Call) -> None:
    task = "--task hf:owner/name --text text --label label"
    command = f"train --method scl {task} --study mine --data-dir glue --address auto"
    lines = sclsearch("submit", "--", *command.split()).stderr.splitlines()
    named = {line.split()[0].rstrip(":") for line in lines}
    assert named == {"--storage", "--data-dir", "--address"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [("submit", "--", *TUNE.split()), ("job", "status", "mine")])
def test_a_silent_cluster_is_an_error_within_seconds(
    sclsearch: Call, command: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        result = sclsearch(*command[:1], "--cluster", url, *command[1:])
        assert time.monotonic() - start < 20
    assert result.returncode == 2
    assert f"--cluster {url}: does not answer: " in result.stderr
    assert "Start the cluster, or a tunnel to it." in result.stderr


@pytest.mark.parametrize("url", ["head:8265", "ray://head:10001", "http://"])
def test_the_url_of_a_cluster_must_be_that_of_its_dashboard(sclsearch: Call, url: str) -> None:
    sclsearch("job", "status", "mine", "--cluster", url).assert_refused(
        f"--cluster {url}: not the URL of a dashboard. Give "
    )


def test_a_folder_of_the_cluster_need_not_exist_locally(sclsearch: Call, workdir: Path) -> None:
    result = sclsearch("submit", "--cluster", "http://127.0.0.1:1", "--", *TUNE.split())
    assert "--cluster http://127.0.0.1:1: does not answer: " in result.stderr
    assert not [path for path in workdir.iterdir() if path.name != "encoder"]
