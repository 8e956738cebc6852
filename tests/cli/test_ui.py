"""Tests of the command `ui`: the server, its address and errors."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.processes import listens, wait_for
from tests.workspace import Call


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--storage", "nowhere"), "--storage nowhere: no such folder."),
        (("--port", "0"), "--port"),
    ],
)
def test_invalid_options_are_refused_and_nothing_is_written(
    sclsearch: Call, workdir: Path, options: tuple[str, ...], message: str
) -> None:
    before = list(workdir.iterdir())
    result = sclsearch("ui", *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert list(workdir.iterdir()) == before


def test_a_port_in_use_is_an_error_before_the_server_starts(sclsearch: Call) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = sclsearch("ui", "--port", str(port))
    assert (result.returncode, result.stdout) == (2, "")
    assert f"--port {port}: cannot be used: Address already in use." in result.stderr


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_ui_is_served_only_to_this_machine_until_it_is_stopped(
    workdir: Path, port: int
) -> None:
    with (workdir / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "sclsearch", "ui", "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"http://127.0.0.1:{port}/#/experiments?workflowType=")
        assert line.endswith(" shows the studies.\n")
        wait_for("the server", lambda: listens(port) or process.poll() is not None)
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert answer.read() == b"OK"
        assert not listens(port, "127.0.0.2")
        process.terminate()
        process.wait(timeout=60)
        wait_for("the end of the server", lambda: not listens(port))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
