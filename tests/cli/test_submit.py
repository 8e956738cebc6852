"""Tests of a search as a job of a real Ray cluster: follow, stop, resume, refuse."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

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
NO_STOP_WAIT = "from sclsearch.cli import main; from sclsearch.ray_backend import jobs; "
NO_STOP_WAIT += "jobs.STOP_SECONDS = 0; main()"
# Imitates a proxy that closes an idle connection.
CUT_LOG = """
from sclsearch.cli import main
from sclsearch.ray_backend import jobs

async def first_lines(log, write):
    write(await anext(log))

jobs._write_all = first_lines
main()
"""
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

    def patched(self, program: str, *arguments: str) -> CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *self.command(*arguments)[1:]],
            env=self.environment,
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
def head(save_tiny: Callable[..., Path]) -> Iterator[Head]:
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
    environment |= {"RAY_AUTH_MODE": "token", "RAY_TMPDIR": str(folder)}
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
        await_jobs(url, token.read_text(), process, folder / "ray.log")
        yield Head(url, folder, save_tiny("Bert"), environment)
    finally:
        for pid in processes_of(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Return free ports below the ephemeral range.

    The head binds some of them late; until then a parallel test could get an ephemeral port.
    """
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = 20_000 + secrets.randbelow(12_000)
            with suppress(OSError):
                stack.enter_context(socket.create_server(("", port)))
                found.append(port)
    return found


def await_jobs(url: str, token: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        request = Request(f"{url}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
        with suppress(URLError, OSError), urlopen(request, timeout=5):
            return
        time.sleep(0.5)
    pytest.fail(f"the head did not start: {log.read_text(errors='replace')}")


def processes_of(folder: Path) -> Iterator[int]:
    """Yield the ids of all processes whose home is the folder."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"HOME={folder}".encode() in (path / "environ").read_bytes().split(b"\0"):
                yield int(path.name)


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
    cut = head.patched(CUT_LOG, "job", "logs", "long")
    assert (cut.returncode, cut.stderr) == (
        2,
        "long-1: its log broke off, but the job goes on. Run `sclsearch job logs long --cluster "
        f"{head.url}` to follow it again.\n",
    )
    assert head.sclsearch("job", "stop", "long").stderr.startswith("long-1 was stopped. ")
    assert head.sclsearch("job", "status", "long").stdout.startswith("long-1\tstopped\t")
    assert head.sclsearch("job", "logs", "long").returncode == 130


def test_a_job_that_does_not_end_in_time_is_not_reported_as_stopped(head: Head) -> None:
    search = head.search("slow", 100_000)
    assert head.sclsearch("submit", "--no-wait", "--", *search).returncode == 0
    # A search that has stored its study shuts Ray down before it stops, which takes a while.
    deadline = time.monotonic() + TIMEOUT
    while not (head.folder / "storage" / "studies" / "slow").exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    stopped = head.patched(NO_STOP_WAIT, "job", "stop", "slow")
    assert (stopped.returncode, stopped.stderr) == (
        2,
        "slow-1: still running 0 seconds after the stop. `sclsearch job status slow --cluster "
        f"{head.url}` shows when it has ended.\n",
    )
    deadline = time.monotonic() + TIMEOUT
    while not head.sclsearch("job", "status", "slow").stdout.startswith("slow-1\tstopped\t"):
        assert time.monotonic() < deadline
    assert head.sclsearch("job", "stop", "slow").stderr.startswith("slow-1 had already ended. ")


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
