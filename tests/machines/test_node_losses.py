"""Tests that the loss of a machine does not change the results of a study."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.machines.conftest import Search
from tests.machines.machines import RAYLET, ROOT, TRAINING, Machine, Machines
from tests.processes import PATIENCE, wait_for
from tests.studies import LOST

if TYPE_CHECKING:
    import subprocess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

STORED_BEFORE = 4
# Metadata server of EC2: files, and a token for each PUT request.
METADATA = """
import http.server

class Metadata(http.server.SimpleHTTPRequestHandler):
    def do_PUT(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"token")

http.server.HTTPServer(("127.0.0.1", 8000), Metadata).serve_forever()
"""

Running = tuple[Search, "subprocess.Popen[bytes]"]
Start = Callable[[str], Running]
Finish = Callable[[Running], Counter[str]]


@pytest.fixture(scope="module")
def head(machines: Machines) -> Iterator[Machine]:
    """Return the head of a cluster with one machine that is not lost."""
    yield machines.cluster(2)
    machines.kill(1, 2)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    """Return the numbers of unused machines.

    Ray considers a new machine dead if it has the address of a recently unplugged one.
    """
    return iter(range(3, 10))


@pytest.fixture
def victim(machines: Machines, head: Machine, numbers: Iterator[int]) -> Iterator[Machine]:
    """Return the machine of the cluster that the test loses."""
    victim = machines.start(next(numbers))
    victim.join(head)
    head.await_nodes(victim)
    yield victim
    machines.kill(victim.number)


@pytest.fixture
def start(head: Machine, victim: Machine, search_named: Callable[[str], Search]) -> Start:
    """Return a function that starts a study and waits until the victim trains a seed run."""

    def start(name: str) -> Running:
        search = search_named(name)
        driver = search.start(head, "--address=auto")

        def trains() -> bool:
            times = [path.stat().st_mtime for path in (search.storage / "runs").glob("*.json")]
            # A worker still looks busy shortly after it stored a seed run.
            quiet = len(times) >= STORED_BEFORE and time.time() - max(times) > 0.3
            return quiet and bool(victim.running(TRAINING))

        wait_for("a seed run on the victim", trains)
        return search, driver

    return start


@pytest.fixture
def finish(head: Machine, undisturbed: Mapping[str, Any]) -> Finish:
    """Return a function that waits for the end of a study, checks its results, returns failures."""

    def finish(running: Running) -> Counter[str]:
        search, driver = running
        assert driver.wait(PATIENCE) == 0, search.output(head)
        assert search.results() == undisturbed
        return search.failures(head)

    return finish


def test_results_are_unchanged_if_a_machine_is_powered_off(
    machines: Machines, victim: Machine, start: Start, finish: Finish
) -> None:
    running = start("power-off")
    machines.kill(victim.number)
    failures = finish(running)
    assert failures.total() >= 1
    assert {*failures} <= LOST


def test_results_are_unchanged_if_a_disconnected_machine_keeps_writing(
    machines: Machines, victim: Machine, start: Start, finish: Finish
) -> None:
    search, driver = start("unplugged")
    machines.network.unplug(victim.number)
    unplugged = time.time()
    assert {*finish((search, driver))} <= LOST
    # It finished and stored its seed run, although no report reached the head.
    runs = [run for run in search.stored().values() if run["environment"]["host"] == victim.name]
    assert max(run["started"] + run["seconds"] for run in runs) > unplugged


def test_results_are_unchanged_if_ray_gets_sigterm_as_in_a_deleted_pod(
    victim: Machine, start: Start, finish: Finish
) -> None:
    running = start("terminated")
    (ray,) = victim.running("/ray start --")
    os.kill(ray, signal.SIGTERM)
    wait_for("the end of its Ray", lambda: not victim.running(RAYLET))
    assert {*finish(running)} <= LOST | {"worker-lost"}


def test_a_machine_with_a_termination_notice_is_drained_without_worker_failures(
    machines: Machines, head: Machine, victim: Machine, start: Start, finish: Finish, tmp_path: Path
) -> None:
    notice = tmp_path / "latest/meta-data/spot/instance-action"
    notice.parent.mkdir(parents=True)
    victim.start("env", f"--chdir={tmp_path}", "python", "-c", METADATA, log="metadata")
    watch = victim.start(
        *("python", str(ROOT / "cluster/spot_watch.py"), "aws", f"--address={head.ip}:6379"),
        *("--metadata=http://127.0.0.1:8000", "--every=0.5"),
        log="watch",
    )
    running = start("drained")
    assert watch.poll() is None
    end = datetime.now(UTC) + timedelta(seconds=4)
    part = notice.with_suffix(".part")
    part.write_text(json.dumps({"action": "terminate", "time": f"{end:%Y-%m-%dT%H:%M:%SZ}"}))
    part.rename(notice)
    assert watch.wait(PATIENCE) == 0
    wait_for("the end of the notice", lambda: datetime.now(UTC) > end and victim.running(TRAINING))
    machines.kill(victim.number)
    # Ray itself restarts the seed runs of a drained machine.
    assert not finish(running)
