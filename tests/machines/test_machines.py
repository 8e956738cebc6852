"""Tests of a study on a cluster of simulated machines, some of which are lost or unfit."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.machines.machines import RAYLET, ROOT, TRAINING, Machine, Machines, missing_requirement
from tests.processes import PATIENCE, wait_for
from tests.studies import SPACE, reproducible_results, stored

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

# The command line; it also prints the cause of each worker failure.
DRIVER = """
from sclsearch.cli import main
from sclsearch.search.scheduler import Scheduler

record_failure = Scheduler.record_failure

def print_and_record(scheduler, task, failure):
    print("worker failure:", failure.cause, failure.message, flush=True)
    record_failure(scheduler, task, failure)

Scheduler.record_failure = print_and_record
main()
"""
CONFIGS, SEEDS = 12, 2
STORED_BEFORE = 4
WRONG = "0" * 64
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


@dataclass
class Search:
    """Search of the study `s` on any machine.

    Attributes:
        command: Its command without storage.
        storage: Its storage folder, which also names its log.
    """

    command: tuple[str, ...]
    storage: Path

    def start(self, machine: Machine) -> None:
        words = (*self.command, f"--storage={self.storage}", "--address=auto")
        self.log = machine.logs / self.storage.name
        self.driver = machine.start("python", "-c", DRIVER, *words, log=self.log.name)

    def finish(self) -> dict[str, Any]:
        """Wait for its end; return the results, which do not depend on machine and time."""
        code = self.driver.wait(PATIENCE)
        assert code == 0, self.log.read_text(encoding="utf-8")
        return reproducible_results(self.storage)

    def failures(self) -> set[str]:
        """Return the causes of its worker failures."""
        log = self.log.read_text(encoding="utf-8")
        return {*re.findall(r"^worker failure: (\S+)", log, re.MULTILINE)}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Return the network of simulated machines; skip the test where there can be none."""
    if reason := missing_requirement():
        pytest.skip(reason)
    machines = Machines(tmp_path_factory.getbasetemp())
    yield machines
    machines.end()


@pytest.fixture(scope="module")
def command(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return the command of a study whose seed runs take about a second.

    The loss of a machine must meet one that is still training.
    """
    space = tmp_path_factory.mktemp("search") / "space.yaml"
    space.write_text(SPACE, encoding="utf-8")
    return (
        *("tune", "--method=scl", "--task=demo", f"--model={tiny_bert}", f"--space={space}"),
        *("--train-size=40", "--rule=mean", f"--configs={CONFIGS}", f"--seeds={SEEDS}"),
        *("--study=s", "--concurrency=2", "--gpus-per-trial=0", "--tracking=none"),
        "--epochs=100",
    )


@pytest.fixture
def search(command: tuple[str, ...], tmp_path: Path) -> Search:
    """Return the search in a storage of the test."""
    return Search(command, tmp_path / tmp_path.name)


@pytest.fixture(scope="module")
def undisturbed(machines: Machines, command: tuple[str, ...], tmp_path_factory: Any) -> Any:
    """Return the results of the study on one machine without failures."""
    search = Search(command, tmp_path_factory.mktemp("undisturbed"))
    search.start(machines.cluster(2))
    results = search.finish()
    machines.kill(1, 2)
    assert len(results) == CONFIGS * SEEDS
    return results


@pytest.fixture
def head(machines: Machines, undisturbed: Any) -> Iterator[Machine]:
    """Return the head of a cluster with one machine that is not lost."""
    yield machines.cluster(2)
    machines.kill(1, 2)


@pytest.fixture
def victim(machines: Machines, head: Machine) -> Iterator[Machine]:
    """Return the machine of the cluster that the test loses."""
    victim = machines.start(3)
    victim.join(head)
    head.await_nodes(victim)
    yield victim
    machines.kill(3)


def start_on(victim: Machine, head: Machine, search: Search) -> None:
    """Start a search and wait until a machine trains a seed run."""
    search.start(head)

    def trains() -> bool:
        times = [path.stat().st_mtime for path in (search.storage / "runs").glob("*.json")]
        # A worker still looks busy shortly after it stored a seed run.
        quiet = len(times) >= STORED_BEFORE and time.time() - max(times) > 0.3
        return quiet and bool(victim.running(TRAINING))

    wait_for("a seed run on the victim", trains)


def terminate_ray(_: Machines, victim: Machine) -> None:
    """End Ray as Kubernetes does for a deleted pod."""
    (ray,) = victim.running("/ray start --")
    os.kill(ray, signal.SIGTERM)
    wait_for("the end of its Ray", lambda: not victim.running(RAYLET))


LOSSES: dict[str, Callable[[Machines, Machine], None]] = {
    "powered off": lambda machines, victim: machines.kill(victim.number),
    "disconnected": lambda machines, victim: machines.network.unplug(victim.number),
    "terminated": terminate_ray,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_results_are_unchanged_if_a_machine_is_lost(
    loss: str, machines: Machines, head: Machine, victim: Machine, search: Search, undisturbed: Any
) -> None:
    start_on(victim, head, search)
    LOSSES[loss](machines, victim)
    lost = time.time()
    assert search.finish() == undisturbed
    # The causes after and before Ray detects the loss.
    causes = {"node-lost", "worker-silent"} | ({"worker-lost"} if loss == "terminated" else set())
    assert search.failures() <= causes
    assert search.failures() or loss != "powered off"
    if loss == "disconnected":
        # It finished and stored its seed run, although no report reached the head.
        runs = stored(search.storage).values()
        own = [run for run in runs if run["environment"]["host"] == victim.name]
        assert max(run["started"] + run["seconds"] for run in own) > lost


def test_a_machine_with_a_termination_notice_is_drained_without_worker_failures(
    machines: Machines,
    head: Machine,
    victim: Machine,
    search: Search,
    undisturbed: Any,
    tmp_path: Path,
) -> None:
    notice = tmp_path / "latest/meta-data/spot/instance-action"
    notice.parent.mkdir(parents=True)
    victim.start("env", f"--chdir={tmp_path}", "python", "-c", METADATA, log="metadata")
    watch = victim.start(
        *("python", str(ROOT / "cluster/spot_watch.py"), "aws", f"--address={head.ip}:6379"),
        *("--metadata=http://127.0.0.1:8000", "--every=0.5"),
        log="watch",
    )
    start_on(victim, head, search)
    assert watch.poll() is None
    end = datetime.now(UTC) + timedelta(seconds=4)
    part = notice.with_suffix(".part")
    part.write_text(json.dumps({"action": "terminate", "time": f"{end:%Y-%m-%dT%H:%M:%SZ}"}))
    part.rename(notice)
    assert watch.wait(PATIENCE) == 0
    wait_for("the end of the notice", lambda: datetime.now(UTC) > end and victim.running(TRAINING))
    machines.kill(victim.number)
    # Ray itself restarts the seed runs of a drained machine.
    assert search.finish() == undisturbed
    assert not search.failures()


def test_an_unshared_storage_and_a_wrong_token_are_named_with_exit_code_2(
    machines: Machines, head: Machine, search: Search
) -> None:
    def refused(machine: Machine, storage: object, address: str) -> str:
        options = (f"--storage={storage}", f"--address={address}")
        done = machine.run("sclsearch", *search.command, *options)
        assert done.returncode == 2, done.stderr
        for token in (WRONG, machines.token):
            assert token not in done.stdout + done.stderr
        return done.stderr

    found = refused(head, "/tmp/mine", "auto")
    assert "10.77.0.2: /tmp/mine/studies/s: machine2 does not see the study." in found
    assert head.run("find", "/tmp/mine", "-name", "*.json", "-path", "*runs*").stdout == ""
    outsider = machines.start(9, token=WRONG)
    address = f"{head.ip}:6379"
    found = refused(outsider, search.storage, address)
    machines.kill(9)
    assert f"--address {address}: no Ray cluster answers, or it rejects this machine's" in found
    assert "~/.ray/auth_token" in found
    assert not stored(search.storage)


def test_a_study_resumes_on_a_new_cluster_after_the_loss_of_all_machines(
    machines: Machines, search: Search, undisturbed: Any
) -> None:
    search.start(machines.cluster(2, 3))
    wait_for("the middle of the study", lambda: len(stored(search.storage)) >= 8)
    machines.kill(1, 2, 3)
    before = stored(search.storage)
    assert len(before) < CONFIGS * SEEDS
    search.start(machines.cluster(2, 3))
    assert search.finish() == undisturbed
    machines.kill(1, 2, 3)
    after = stored(search.storage)
    assert {key: after[key] for key in before} == before
