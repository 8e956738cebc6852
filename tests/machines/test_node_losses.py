"""Machines that go away in the middle of a study: the store ends as that of the undisturbed one."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.machines.conftest import CONFIGS, SEEDS, Search
from tests.machines.room import PATIENCE, ROOT, Machine, Room, wait_for

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


@pytest.fixture(scope="module")
def head(room: Room) -> Iterator[Machine]:
    """Returns the head of a cluster with one machine that stays."""
    yield room.cluster(2)
    room.off(1, 2)


@pytest.fixture
def victim(room: Room, head: Machine) -> Iterator[Machine]:
    """Returns the machine of the cluster that will go."""
    victim = room.machine(3)
    victim.join(head)
    yield victim
    room.off(3)


def begun_on(victim: Machine, search: Search) -> Callable[[], bool]:
    """Returns what tells whether the study is in its midst, and a seed run in that machine."""
    return lambda: len(search.stored()) >= STORED_BEFORE and victim.trains()


def test_a_machine_that_is_powered_off(
    room: Room,
    head: Machine,
    victim: Machine,
    searching: Callable[[str], Search],
    undisturbed: Mapping[str, Any],
) -> None:
    search = searching("power-off")
    driver = search.start(head, "--address=auto")
    wait_for("a seed run on the victim", begun_on(victim, search))
    room.off(victim.number)
    assert driver.wait(PATIENCE) == 0, search.told(head)
    assert {*search.lost(head)} <= {"node-lost", "worker-silent"}
    assert search.lost(head).total() >= 1
    assert len(search.stored()) == CONFIGS * SEEDS
    assert search.figures() == undisturbed


def test_a_machine_that_is_unplugged_and_goes_on_writing(
    room: Room,
    head: Machine,
    victim: Machine,
    searching: Callable[[str], Search],
    undisturbed: Mapping[str, Any],
) -> None:
    search = searching("unplugged")
    driver = search.start(head, "--address=auto")
    wait_for("a seed run on the victim", begun_on(victim, search))
    room.network.unplug(victim.number)
    unplugged = time.time()
    assert driver.wait(PATIENCE) == 0, search.told(head)
    # It finished and stored what it was training, though no report came through.
    ends = [run["started"] + run["seconds"] for run in search.trained_on(victim.name)]
    assert max(ends) > unplugged
    assert {*search.lost(head)} <= {"node-lost", "worker-silent"}
    assert search.figures() == undisturbed


def test_a_machine_whose_cloud_gives_notice_is_drained_and_its_losses_do_not_count(
    room: Room,
    head: Machine,
    victim: Machine,
    searching: Callable[[str], Search],
    undisturbed: Mapping[str, Any],
) -> None:
    search = searching("drained")
    notice = search.storage / "metadata/latest/meta-data/spot/instance-action"
    notice.parent.mkdir(parents=True)
    folder = str(search.storage / "metadata")
    victim.start("env", "--chdir", folder, "python", "-c", METADATA, log="metadata")
    watch = victim.start(
        *("python", str(ROOT / "cluster/spot_watch.py"), "aws", f"--address={head.ip}:6379"),
        *("--metadata=http://127.0.0.1:8000", "--every=0.5"),
        log="watch",
    )
    driver = search.start(head, "--address=auto")
    wait_for("a seed run on the victim", begun_on(victim, search))
    assert watch.poll() is None
    end = give_notice(notice)
    assert watch.wait(PATIENCE) == 0
    wait_for("the end of the notice", lambda: datetime.now(UTC) > end and victim.trains())
    room.off(victim.number)
    assert driver.wait(PATIENCE) == 0, search.told(head)
    # Ray itself begins anew what such a machine took with it.
    assert not search.lost(head)
    assert search.figures() == undisturbed


def give_notice(path: Path) -> datetime:
    """Says as Amazon does when the machine goes; returns when."""
    end = datetime.now(UTC) + timedelta(seconds=NOTICE_SECONDS)
    said = {"action": "terminate", "time": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(said), encoding="utf-8")
    part.rename(path)
    return end
