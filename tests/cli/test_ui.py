"""Tests of the command `ui`: the server, its address, the studies that it shows, and errors."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.conftest import Call
from tests.processes import free_port, listens, wait_for
from tests.tracking.conftest import Shown


def test_an_invalid_option_or_a_used_port_is_refused_and_nothing_is_written(
    sclsearch: Call, workdir: Path
) -> None:
    before = list(workdir.iterdir())
    sclsearch("ui", "--storage", "nowhere").assert_refused("--storage nowhere: no such folder.")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        sclsearch("ui", "--port", port).assert_refused(f"--port {port}: cannot be used: Address")
    assert list(workdir.iterdir()) == before


@pytest.mark.slow
@pytest.mark.usefixtures("finished")
def test_the_ui_first_completes_the_records_of_stored_studies(
    sclsearch: Call, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(f"sqlite:///{storage}/mlflow.db")
    monkeypatch.setattr("os.execve", lambda *_: None)  # the server itself
    for _ in range(2):
        result = sclsearch("ui", "--port", str(free_port()))
        assert (result.returncode, "that it lacks" in result.stderr) == (0, True)
    levels = sorted(run.data.tags["level"] for run in shown.runs().values())
    assert levels == ["configuration"] * 2 + ["seed run"] * 4 + ["study"]
    assert sum(run.info.status == "FAILED" for run in shown.runs().values()) == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_ui_is_served_only_to_this_machine_until_it_is_stopped(workdir: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "sclsearch", "ui", "--port", str(port)]
    with (workdir / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for("the server", lambda: listens(port) or process.poll() is not None)
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert answer.read() == b"OK"
        _, address, *_ = (workdir / "log").read_text().splitlines()
        assert address.startswith(f"  http://127.0.0.1:{port}/#/experiments?workflowType=")
        assert not listens(port, "127.0.0.2")
        process.terminate()
        process.wait(timeout=60)
        wait_for("the end of the server", lambda: not listens(port))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
