"""What cannot run on a cluster is said before the cluster is asked."""

import socket
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives back at the end what speaking with a cluster sets in this process."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:2")


TUNE = "tune --method scl --task cola --study mine --storage /shared/storage"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("tnue", "Unknown command for a cluster 'tnue'. Did you mean 'tune'? Known: confirm, "),
        ("ls methods", "Unknown command for a cluster 'ls'. Known: confirm, reproduce, train, tun"),
        ("tune --task cola", "Missing option '--method'"),
        ("tune --method scl --task cola", "tune: --study is missing."),
        (f"{TUNE} --stroage x", "No such option: --stroage"),
        (f"{TUNE} --storage here", "--storage here: is a relative path"),
        (f"{TUNE} --storage ~/here", "--storage ~/here: is a relative path"),
        (f"{TUNE} --space ./mine.yaml", "--space mine.yaml: is a relative path"),
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
        done = sclsearch("submit", "--cluster", "http://127.0.0.1:1", *dashes, *command.split())
        assert done.returncode == 2
        assert message in done.stderr
        assert "secret" not in done.stderr
        assert "must answer" not in done.stderr


def test_every_fault_is_named_at_once(sclsearch: Call) -> None:
    command = "train --method scl --task cola --study mine --data-dir glue --address auto"
    lines = sclsearch("submit", "--", *command.split()).stderr.splitlines()
    named = {line.split()[0].rstrip(":") for line in lines}
    assert named == {"--storage", "--data-dir", "--address"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [("submit", "--", *TUNE.split()), ("job", "status", "mine")])
def test_a_cluster_that_does_not_answer_is_said_within_seconds(
    sclsearch: Call, command: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        done = sclsearch(*command[:1], "--cluster", url, *command[1:])
        assert time.monotonic() - begun < 20
    assert done.returncode == 2
    assert f"--cluster {url}: does not answer: " in done.stderr
    assert "Start the cluster, or a tunnel to it." in done.stderr


@pytest.mark.parametrize("url", ["head:8265", "ray://head:10001", "http://"])
def test_a_cluster_is_named_by_the_url_of_its_dashboard(sclsearch: Call, url: str) -> None:
    done = sclsearch("job", "status", "mine", "--cluster", url)
    assert done.returncode == 2
    assert f"--cluster {url}: not the URL of a dashboard. Give " in done.stderr


def test_a_folder_of_the_cluster_need_not_be_here(sclsearch: Call, place: Path) -> None:
    done = sclsearch("submit", "--cluster", "http://127.0.0.1:1", "--", *TUNE.split())
    assert "--cluster http://127.0.0.1:1: does not answer: " in done.stderr
    assert not Path("/shared/storage").exists()
    assert not [path for path in place.iterdir() if path.name != "encoder"]
