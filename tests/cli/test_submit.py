"""Tests of a search as a job of a real Ray cluster: follow, stop, resume, refuse."""

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.conftest import Save
from tests.processes import free_ports, wait_for
from tests.workspace import Processes

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("aiohttp_cors") is None,
        reason="a cluster's dashboard needs the extra 'cluster'",
    ),
]

TIMEOUT = 240.0
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Head:
    """Head node of a cluster with a token."""

    url: str
    folder: Path
    model: Path
    environment: dict[str, str]

    def command(self, name: str, *arguments: str) -> list[str]:
        return [str(BIN / "sclsearch"), name, "--cluster", self.url, *arguments]

    def sclsearch(self, *arguments: str, **changes: str) -> CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env={**self.environment, **changes},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )

    def search(self, study: str, epochs: int) -> tuple[str, ...]:
        return (
            *("train", "--method", "ce", "--task", "demo", "--train-size", "16", "--seeds", "3"),
            *("--model", str(self.model), "--set", "max_length=16", "--set", f"epochs={epochs}"),
            *("--gpus-per-trial", "0", "--concurrency", "1", "--tracking", "none"),
            *("--storage", str(self.folder / "storage"), "--study", study),
        )


@pytest.fixture(scope="module")
def head(save_tiny: Save, processes: Processes) -> Iterator[Head]:
    """Yield a head node on this machine with a separate home, token and ports."""
    # The path of a socket has at most 107 characters: pytest's folders are too deep.
    folder = Path(tempfile.mkdtemp(prefix="head-"))
    token = folder / ".ray" / "auth_token"
    token.parent.mkdir()
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    unset = ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_API_SERVER_ADDRESS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HOME": str(folder), "PATH": f"{BIN}:{os.environ['PATH']}"}
    environment |= {"RAY_AUTH_MODE": "token", "RAY_TMPDIR": str(folder), **processes.environment}
    ports = free_ports(4)
    names = ("port", "dashboard-port", "ray-client-server-port", "dashboard-agent-listen-port")
    # The second CPU is for a search that starts before a stopped one releases its CPU.
    command = [str(BIN / "ray"), "start", "--head", "--block", "--num-cpus=2"]
    command += ["--dashboard-host=127.0.0.1", "--object-store-memory=100000000"]
    command += ["--disable-usage-stats"]
    command += [f"--{name}={port}" for name, port in zip(names, ports, strict=True)]
    with (folder / "ray.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    url = f"http://127.0.0.1:{ports[1]}"
    try:
        wait_for(
            "the head",
            lambda: accepts_jobs(url, token.read_text()) or process.poll() is not None,
            TIMEOUT,
        )
        assert process.poll() is None, (folder / "ray.log").read_text(errors="replace")
        yield Head(url, folder, save_tiny("Bert"), environment)
    finally:
        processes.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def accepts_jobs(url: str, token: str) -> bool:
    request = Request(f"{url}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
    with suppress(URLError, OSError), urlopen(request, timeout=5):
        return True
    return False


def test_a_job_is_followed_to_its_end_and_resumes_under_the_same_name(head: Head) -> None:
    result = head.sclsearch("submit", "--", *head.search("short", 1))
    assert (result.returncode, result.stderr) == (0, f"short-1 runs on {head.url}.\n")
    assert "3/3 seed runs" in result.stdout
    assert "test accuracy" in result.stdout
    assert len([*(head.folder / "storage" / "runs").glob("*.json")]) == 3
    again = head.sclsearch("submit", "--", *head.search("short", 1))
    assert (again.returncode, again.stderr) == (0, f"short-2 runs on {head.url}.\n")
    assert "test accuracy" in again.stdout
    assert "seed runs ·" not in again.stdout  # all of them are in the store
    assert head.sclsearch("job", "status", "short").stdout.startswith("short-2\tsucceeded\t")
    token = (head.folder / ".ray" / "auth_token").read_text()
    logs = [path for path in head.folder.rglob("*.log") if path.is_file()]
    assert any("job-driver-short-2" in path.name for path in logs)
    assert not [path for path in logs if token in path.read_text(errors="replace")]


def test_a_running_job_can_be_left_and_stopped_but_not_submitted_twice(head: Head) -> None:
    search = head.search("long", 100_000)
    follower = subprocess.Popen(
        head.command("submit", "--", *search),
        env=head.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert any("Running entrypoint for job long-1" in line for line in follower.stdout)
    follower.send_signal(signal.SIGINT)
    _, message = follower.communicate(timeout=TIMEOUT)
    assert follower.returncode == 130
    assert "long-1 goes on." in message
    for action in ("status", "logs", "stop"):
        assert f"sclsearch job {action} long --cluster {head.url}\n" in message
    twice = head.sclsearch("submit", "--no-wait", "--", *search)
    assert twice.returncode == 2
    assert twice.stderr.startswith("long: long-1 already runs it. Follow ")
    assert head.sclsearch("job", "status", "long").stdout.startswith("long-1\trunning\t")
    assert head.sclsearch("job", "stop", "long").stderr.startswith("long-1 was stopped. ")
    assert head.sclsearch("job", "status", "long").stdout.startswith("long-1\tstopped\t")
    assert head.sclsearch("job", "logs", "long").returncode == 130


def test_a_failed_job_ends_with_the_exit_code_and_message_of_its_search(head: Head) -> None:
    result = head.sclsearch("submit", "--", *head.search("wrong", 0))
    assert result.returncode == 2
    assert "--set epochs: must be at least 1" in result.stdout
    unknown = head.sclsearch("job", "stop", "wrng")
    assert unknown.returncode == 2
    assert f"Unknown job 'wrng' on {head.url}. Did you mean 'wrong'? Known: " in unknown.stderr


@pytest.mark.parametrize(
    "changes",
    [{"RAY_AUTH_TOKEN": "no" * 32}, {"HOME": "/nowhere"}, {"RAY_AUTH_TOKEN_PATH": "/nowhere"}],
    ids=["wrong", "none", "no file"],
)
def test_a_wrong_or_missing_cluster_token_is_refused(head: Head, changes: dict[str, str]) -> None:
    result = head.sclsearch("submit", "--", *head.search("refused", 1), **changes)
    assert result.returncode == 2
    assert f"--cluster {head.url}: the cluster rejects this machine's token: " in result.stderr
    assert "name its file by RAY_AUTH_TOKEN_PATH." in result.stderr
    assert len(result.stderr.splitlines()) == 1
