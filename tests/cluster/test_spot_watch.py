"""spot_watch.py asks a metadata server as the clouds' own do answer, and tells Ray by its command.

The servers are real ones on the loopback; `ray` is a script that writes down how it was called.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "cluster" / "spot_watch.py"
ADDRESS = "10.0.0.1:6379"


class Machine(ThreadingHTTPServer):
    """A machine's metadata server: EC2's with IMDSv2 alone, and Compute Engine's."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Metadata)
        self.notice: str | None = None
        self.preempted = "FALSE"
        self.broken = 0
        self.asked = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Metadata(BaseHTTPRequestHandler):
    server: Machine

    def do_PUT(self) -> None:
        lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        known = self.path == "/latest/api/token" and lifetime
        self._say(200 if known else 400, "secret" if known else "")

    def do_GET(self) -> None:
        self.server.asked.set()
        if self.server.broken:
            self.server.broken -= 1
            self._say(503, "")
        elif self.path == "/latest/meta-data/spot/instance-action":
            if self.headers.get("X-aws-ec2-metadata-token") != "secret":
                self._say(401, "")
            else:
                self._say(200 if self.server.notice else 404, self.server.notice or "")
        elif self.path == "/computeMetadata/v1/instance/preempted":
            google = self.headers.get("Metadata-Flavor") == "Google"
            self._say(200 if google else 403, self.server.preempted)
        else:
            self._say(404, "")

    def _say(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the file of calls of a `ray` that fails as often as the file `fail` has bytes."""
    script = tmp_path / "bin" / "ray"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/bash\n"
        f'printf "%s|" "$@" >> {tmp_path}/calls; echo >> {tmp_path}/calls\n'
        f"if [[ -s {tmp_path}/fail ]]; then\n"
        f"  truncate --size=-1 {tmp_path}/fail; echo 'no head answers' >&2; exit 1\n"
        "fi\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return tmp_path / "calls"


def _watch(cloud: str, machine: Machine) -> "subprocess.Popen[str]":
    command = [sys.executable, "-S", str(SCRIPT), cloud, "--address", ADDRESS]
    command += ["--metadata", machine.url, "--every", "0.05"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def _told(calls: Path) -> Sequence[dict[str, str]]:
    """Returns the options of each call of `ray drain-node`."""
    lines = [line.split("|")[:-1] for line in calls.read_text(encoding="utf-8").splitlines()]
    assert all(line[0] == "drain-node" for line in lines)
    return [dict(zip(line[1::2], line[2::2], strict=True)) for line in lines]


def _in(seconds: float) -> str:
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    return f'{{"action": "terminate", "time": "{end:%Y-%m-%dT%H:%M:%SZ}"}}'


def test_a_notice_of_aws_drains_the_node_with_the_time_that_is_left(
    machine: Machine, calls: Path
) -> None:
    machine.notice = _in(120)
    process = _watch("aws", machine)
    _, log = process.communicate(timeout=60)
    (call,) = _told(calls)
    assert process.returncode == 0
    assert call["--address"] == ADDRESS
    assert call["--reason"] == "DRAIN_NODE_REASON_PREEMPTION"
    assert 60 <= int(call["--deadline-remaining-seconds"]) <= 120
    assert "The machine goes in 1" in log


def test_a_notice_of_google_drains_the_node_with_its_30_seconds(
    machine: Machine, calls: Path
) -> None:
    machine.preempted = "TRUE"
    process = _watch("gce", machine)
    process.communicate(timeout=60)
    (call,) = _told(calls)
    assert process.returncode == 0
    assert call["--deadline-remaining-seconds"] == "30"


@pytest.mark.parametrize("cloud", ["aws", "gce"])
def test_without_a_notice_nothing_is_drained_and_the_watch_goes_on(
    cloud: str, machine: Machine, calls: Path
) -> None:
    process = _watch(cloud, machine)
    for _ in range(3):
        assert machine.asked.wait(60)
        machine.asked.clear()
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert not calls.exists()


def test_a_metadata_server_that_is_away_for_a_while_is_asked_again(
    machine: Machine, calls: Path
) -> None:
    machine.broken, machine.notice = 2, _in(120)
    process = _watch("aws", machine)
    _, log = process.communicate(timeout=60)
    assert len(_told(calls)) == 1
    assert log.count("HTTP Error 503") == 2


def test_ray_is_told_again_until_it_takes_it(machine: Machine, calls: Path, tmp_path: Path) -> None:
    (tmp_path / "fail").write_text("ab", encoding="utf-8")
    machine.notice = _in(120)
    process = _watch("aws", machine)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(_told(calls)) == 3
    assert log.count("ray drain-node: no head answers") == 2


def test_a_notice_whose_time_is_over_still_drains(machine: Machine, calls: Path) -> None:
    machine.notice = _in(-10)
    _watch("aws", machine).communicate(timeout=60)
    (call,) = _told(calls)
    assert call["--deadline-remaining-seconds"] == "0"


def test_a_proxy_of_the_environment_is_not_asked(
    machine: Machine, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    machine.preempted = "TRUE"
    _watch("gce", machine).communicate(timeout=60)
    assert len(_told(calls)) == 1


def test_ray_has_the_command_with_these_options(read: Callable[[str], str]) -> None:
    from ray.core.generated import autoscaler_pb2
    from ray.scripts.scripts import drain_node

    text = read("spot_watch.py")
    known = {option for parameter in drain_node.params for option in parameter.opts}
    for option in ("--address", "--reason", "--reason-message", "--deadline-remaining-seconds"):
        assert f'"{option}"' in text
        assert option in known
    assert "DRAIN_NODE_REASON_PREEMPTION" in autoscaler_pb2.DrainNodeReason.keys()  # noqa: SIM118
