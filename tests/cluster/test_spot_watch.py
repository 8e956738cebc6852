"""Tests of spot_watch.py with a local metadata server and a fake `ray` command."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cluster.conftest import FOLDER

ADDRESS = "10.0.0.1:6379"
AWS, GCE = "/latest/meta-data/spot/instance-action", "/computeMetadata/v1/instance/preempted"
LIFETIME, TOKEN = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"


class MetadataServer(ThreadingHTTPServer):
    """Metadata server of EC2 (IMDSv2 only) and of Compute Engine."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MetadataHandler)
        self.answers = {GCE: "FALSE"}
        self.requests = self.errors = 0


class MetadataHandler(BaseHTTPRequestHandler):
    server: MetadataServer

    def do_PUT(self) -> None:
        known = self.path == "/latest/api/token" and self.headers.get(LIFETIME)
        self._respond(200 if known else 400, "secret")

    def do_GET(self) -> None:
        self.server.requests += 1
        answer = self.server.answers.get(self.path)
        name, value = {AWS: (TOKEN, "secret"), GCE: ("Metadata-Flavor", "Google")}[self.path]
        code = 401 if self.headers.get(name) != value else 200 if answer else 404
        if self.server.errors:
            self.server.errors -= 1
            code = 503
        self._respond(code, answer or "")

    def _respond(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    with MetadataServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the log of a fake `ray`, which fails once per byte of the file `fail`."""
    script = tmp_path / "bin" / "ray"
    script.parent.mkdir()
    script.write_text(
        f"""#!/bin/bash
        printf "%s|" "$@" >> {tmp_path}/calls; echo >> {tmp_path}/calls
        [[ -s {tmp_path}/fail ]] || exit 0
        truncate --size=-1 {tmp_path}/fail; echo 'no head answers' >&2; exit 1"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return tmp_path / "calls"


def _watch(cloud: str, server: MetadataServer) -> "subprocess.Popen[str]":
    command = [sys.executable, "-S", str(FOLDER / "spot_watch.py"), cloud, "--address", ADDRESS]
    command += ["--metadata", f"http://127.0.0.1:{server.server_port}", "--every", "0.05"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("cloud", "seconds", "least", "most"),
    [("aws", 120, 60, 120), ("aws", -10, 0, 0), ("gce", 30, 30, 30)],
    ids=["EC2", "EC2, expired", "Compute Engine"],
)
def test_a_notice_drains_the_node_with_the_remaining_time_despite_errors_and_proxy_variables(
    server: MetadataServer,
    calls: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cloud: str,
    seconds: int,
    least: int,
    most: int,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    notice = f'{{"action": "terminate", "time": "{end:%Y-%m-%dT%H:%M:%SZ}"}}'
    server.answers |= {AWS: notice, GCE: "TRUE"}
    server.errors = 2
    (tmp_path / "fail").write_text("ab", encoding="utf-8")
    process = _watch(cloud, server)
    _, log = process.communicate(timeout=60)
    *failed, last = calls.read_text(encoding="utf-8").splitlines()
    words = last.split("|")[:-1]
    call = dict(zip(words[1::2], words[2::2], strict=True))
    assert (process.returncode, words[0], len(failed)) == (0, "drain-node", 2)
    assert call["--address"] == ADDRESS
    assert call["--reason"] == "DRAIN_NODE_REASON_PREEMPTION"
    assert least <= int(call["--deadline-remaining-seconds"]) <= most
    assert "The cloud takes this machine away in " in log
    assert log.count("HTTP Error 503") == log.count("ray drain-node: no head answers") == 2
