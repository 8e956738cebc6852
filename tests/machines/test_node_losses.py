"""Machines that go away in the middle of a study: the store ends as that of the undisturbed one."""

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
from tests.machines.room import PATIENCE, RAYLET, ROOT, Machine, Room, wait_for
from tests.studies import LOST

if TYPE_CHECKING:
    import subprocess

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

STORED_BEFORE = 4
# Amazon's metadata server: files, and a token for who asks for one.
METADATA = """
import http.server

class Metadata(http.server.SimpleHTTPRequestHandler):
    def do_PUT(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"token")

http.server.HTTPServer(("127.0.0.1", 8000), Metadata).serve_forever()
"""
NOTICE_SECONDS = 4

Begun = tuple[Search, "subprocess.Popen[bytes]"]
Begin = Callable[[str], Begun]
End = Callable[[Begun], Counter[str]]


@pytest.fixture(scope="module")
def head(room: Room) -> Iterator[Machine]:
    """Returns the head of a cluster with one machine that stays."""
    yield room.cluster(2)
    room.off(1, 2)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    """Returns numbers of machines that were not on yet.

    Ray takes a machine for dead that has the address of one that was unplugged a moment ago.
    """
    return iter(range(3, 10))


@pytest.fixture
def victim(room: Room, head: Machine, numbers: Iterator[int]) -> Iterator[Machine]:
    """Returns the machine of the cluster that will go."""
    victim = room.machine(next(numbers))
    victim.join(head)
    head.await_nodes(victim)
    yield victim
    room.off(victim.number)


@pytest.fixture
def begin(head: Machine, victim: Machine, searching: Callable[[str], Search]) -> Begin:
    """Returns what starts a study and waits for its midst, with a seed run on the victim."""

    def begin(name: str) -> Begun:
        search = searching(name)
        driver = search.start(head, "--address=auto")
        wait_for(
            "a seed run on the victim",
            lambda: search.at_work(victim, STORED_BEFORE, quiet=0.3),
        )
        return search, driver

    return begin


@pytest.fixture
def end(head: Machine, undisturbed: Mapping[str, Any]) -> End:
    """Returns what waits for a study's end, the undisturbed one's, and says what was lost."""

    def end(begun: Begun) -> Counter[str]:
        search, driver = begun
        assert driver.wait(PATIENCE) == 0, search.told(head)
        assert search.figures() == undisturbed
        return search.lost(head)

    return end


def test_a_machine_that_is_powered_off(room: Room, victim: Machine, begin: Begin, end: End) -> None:
    begun = begin("power-off")
    room.off(victim.number)
    lost = end(begun)
    assert lost.total() >= 1
    assert {*lost} <= LOST


def test_a_machine_whose_raylet_is_killed(victim: Machine, begin: Begin, end: End) -> None:
    begun = begin("raylet")
    (raylet,) = victim.running(RAYLET)
    os.kill(raylet, signal.SIGKILL)
    wait_for("the end of its workers", lambda: not victim.trains())
    # None at all where it had just stored what it was training.
    assert {*end(begun)} <= LOST


def test_a_machine_that_is_unplugged_and_goes_on_writing(
    room: Room, victim: Machine, begin: Begin, end: End
) -> None:
    search, driver = begin("unplugged")
    room.network.unplug(victim.number)
    unplugged = time.time()
    assert {*end((search, driver))} <= LOST
    # It finished and stored what it was training, though no report came through.
    ends = [run["started"] + run["seconds"] for run in search.trained_on(victim.name)]
    assert max(ends) > unplugged


def test_a_machine_that_is_told_to_end_as_a_pod_is(victim: Machine, begin: Begin, end: End) -> None:
    begun = begin("terminated")
    (ray,) = victim.running("/ray start --")
    os.kill(ray, signal.SIGTERM)
    wait_for("the end of its Ray", lambda: not victim.running(RAYLET))
    assert {*end(begun)} <= LOST | {"worker-lost"}


def test_a_machine_whose_cloud_gives_notice_is_drained_and_its_losses_do_not_count(
    room: Room, head: Machine, victim: Machine, begin: Begin, end: End, tmp_path: Path
) -> None:
    notice = tmp_path / "latest/meta-data/spot/instance-action"
    notice.parent.mkdir(parents=True)
    victim.start("env", f"--chdir={tmp_path}", "python", "-c", METADATA, log="metadata")
    watch = victim.start(
        *("python", str(ROOT / "cluster/spot_watch.py"), "aws", f"--address={head.ip}:6379"),
        *("--metadata=http://127.0.0.1:8000", "--every=0.5"),
        log="watch",
    )
    begun = begin("drained")
    assert watch.poll() is None
    gone = give_notice(notice)
    assert watch.wait(PATIENCE) == 0
    wait_for("the end of the notice", lambda: datetime.now(UTC) > gone and victim.trains())
    room.off(victim.number)
    # Ray itself begins anew what such a machine took with it.
    assert not end(begun)


def give_notice(path: Path) -> datetime:
    """Says as Amazon does when the machine goes; returns when."""
    end = datetime.now(UTC) + timedelta(seconds=NOTICE_SECONDS)
    said = {"action": "terminate", "time": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(said), encoding="utf-8")
    part.rename(path)
    return end
