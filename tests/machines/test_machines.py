"""Tests of a study on a cluster of simulated machines, some of which are lost or unfit.

A machine is a process that holds Linux namespaces, which a network bridge connects: it has its own
address, processes, host name, /tmp and home. Killing the process ends everything in them, as a
power cut does. It also ends with the test process, so nothing remains to be cleaned up.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Call
from tests.processes import PATIENCE, wait_for
from tests.studies import SPACE, in_process, reproducible_results, stored

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
BOOT = str(Path(__file__).with_name("boot.sh"))
TOOLS = ("ip", "nsenter", "pgrep", "setpriv", "unshare")
NET_ADMIN, SYS_ADMIN = 12, 21
HOLD_NAMESPACES = ("setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child")
NAMESPACES = ("--net", "--pid", "--mount", "--uts", "--ipc")
SWITCH = "ip link add switch type bridge && ip link set switch up && echo up && exec sleep infinity"
# Connects a machine to the network: its number and the ID of its process are the arguments.
CONNECT = """
number=$1 machine=$2
inside() { nsenter --target $machine --net ip "$@"; }
ip link delete port$number  # of a machine that is shutting down
set -e
ip link add port$number type veth peer name eth0 netns $machine
ip link set port$number master switch up
inside link set lo up
inside address add 10.77.0.$number/24 dev eth0
inside link set eth0 up
inside route add default via 10.77.0.254
"""
# Ray's defaults take a minute to detect an unplugged machine, and those of cluster/ let a machine
# drain for 90 seconds; the tests need shorter times.
SETTINGS = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "4",
}
NODES = (
    "import ray; ray.init('auto', log_to_driver=False, logging_level='error'); "
    "print(*(node['NodeManagerHostname'] for node in ray.nodes() if node['Alive']))"
)
RAYLET = "/raylet/raylet --"
TRAINING = "ray::ImplicitFunc.train"
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
# Server on port 9000 that passes connections on to port 9001, each answer 30 ms late.
DELAY = """
import asyncio

async def copy(source, target, seconds):
    while data := await source.read(65536):
        await asyncio.sleep(seconds)
        target.write(data)
        await target.drain()
    target.close()

async def connect(reader, writer):
    there, back = await asyncio.open_connection("127.0.0.1", 9001)
    await asyncio.gather(copy(reader, back, 0), copy(there, writer, 0.03), return_exceptions=True)

async def serve():
    await (await asyncio.start_server(connect, "0.0.0.0", 9000)).serve_forever()

asyncio.run(serve())
"""
# MLflow on PostgreSQL, and an S3 server on port 9001.
SERVICES = """
set -e
server=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
install --directory --owner=postgres /tmp/data
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
as_postgres $server/initdb --auth=trust /tmp/data
as_postgres $server/postgres -D /tmp/data -h 127.0.0.1 -k /tmp &
python -m moto.server -H 127.0.0.1 -p 9001 &
until psql -h 127.0.0.1 -U postgres -c 'create database mlflow'; do sleep 0.5; done
exec mlflow server --host=10.77.0.6 --port=5000 --allowed-hosts=10.77.0.6:5000 --workers=1 \\
    --backend-store-uri=postgresql+psycopg2://postgres@127.0.0.1/mlflow \\
    --artifacts-destination=/tmp/artifacts
"""
BUCKET = "import boto3; boto3.client('s3').create_bucket(Bucket='studies')"
DOWNLOAD = """
import sys
from pathlib import Path
from sclsearch.store.remote import RemotePath
runs = RemotePath("s3://studies/runs")
for name in runs.files():
    file = Path(sys.argv[1], name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((runs / name).read())
"""
FINISHED = "select count(*) from runs where status = 'FINISHED'"
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


class Namespaces:
    """Process that holds namespaces; `pid` is its first child."""

    def __init__(self, kinds: tuple[str, ...], *command: str, **variables: str) -> None:
        self.kinds = kinds
        self.holder = subprocess.Popen(
            [*HOLD_NAMESPACES, *kinds, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, **variables},
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n"
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.pid = int(children.read_text(encoding="utf-8"))

    def command(self, *command: str) -> list[str]:
        """Return the command of the host that runs a command in the namespaces."""
        return ["nsenter", "--target", str(self.pid), *self.kinds, "--", *command]

    def release(self) -> None:
        """Kill the processes in the namespaces."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.holder.communicate(timeout=60)


class Machine(Namespaces):
    """Running simulated machine.

    Args:
        number: Last byte of its address, 1 to 9.
        shared: Folder that all machines share.
        token: Cluster token in the home of its user.
    """

    def __init__(self, number: int, shared: Path, token: str) -> None:
        self.number, self.name, self.ip = number, f"machine{number}", f"10.77.0.{number}"
        self.logs = shared / "logs"
        self.logs.mkdir(exist_ok=True)
        self.started: list[subprocess.Popen[bytes]] = []
        needed = (ROOT, Path(sys.prefix), shared)
        hidden = [str(folder) for folder in needed if folder.is_relative_to("/tmp")]
        boot = ("--mount-proc", "bash", BOOT, self.name, *hidden)
        super().__init__(NAMESPACES, *boot, TOKEN=token)
        users = {name: one for name, one in os.environ.items() if not name.startswith("RAY_")}
        own = {
            "HOME": "/tmp/home",
            "HF_HOME": os.environ.get("HF_HOME", str(Path.home() / ".cache/huggingface")),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "token",
        }
        self.options: dict[str, Any] = {
            "cwd": "/",
            "env": {**users, **SETTINGS, **own},
            "stdin": subprocess.DEVNULL,
        }

    def start(self, *command: str, log: str) -> "subprocess.Popen[bytes]":
        """Start a command with its output in a log file."""
        both = subprocess.STDOUT
        with (self.logs / log).open("ab") as file:
            process = subprocess.Popen(
                self.command(*command), **self.options, stdout=file, stderr=both
            )
        self.started.append(process)
        return process

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command and wait for its end."""
        return subprocess.run(
            self.command(*command),
            **self.options,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def join(self, head: "Machine | None" = None, cpus: int = 1, *more: str) -> None:
        """Start Ray as a worker node of `head`, or as the head without it, with more options."""
        role = [f"--address={head.ip}:6379"] if head else ["--head", "--port=6379"]
        role += [] if head else ["--include-dashboard=false"]
        own = [f"--node-ip-address={self.ip}", f"--num-cpus={cpus}", "--num-gpus=0"]
        rest = ["--object-store-memory=100000000", "--disable-usage-stats", "--block"]
        self.start("ray", "start", *role, *own, *rest, *more, log=f"ray-{self.name}")

    def await_nodes(self, *machines: "Machine") -> None:
        """Wait until Ray lists machines as nodes of this machine's cluster."""
        names = {machine.name for machine in machines}
        wait_for(
            f"a cluster with {sorted(names)}; see {self.logs}",
            lambda: names <= {*self.run("python", "-c", NODES).stdout.split()},
        )

    def running(self, part: str) -> list[int]:
        """Return the IDs of its processes whose command line contains a text."""
        command = ["pgrep", "--full", "--ns", str(self.pid), "--nslist", "pid", "--", part]
        found = subprocess.run(command, capture_output=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def release(self) -> None:
        super().release()
        for process in self.started:
            process.wait(60)


class Machines:
    """Simulated machines that share a network, a folder and a token."""

    def __init__(self, shared: Path) -> None:
        self.shared, self.token = shared, secrets.token_hex(32)
        self.network = Namespaces(("--net",), "bash", "-c", SWITCH)
        self.running: dict[int, Machine] = {}

    def start(self, number: int, token: str | None = None) -> Machine:
        """Start a machine; restart it if it runs."""
        self.kill(number)
        machine = self.running[number] = Machine(number, self.shared, token or self.token)
        self._in_network("bash", "-c", CONNECT, "connect", str(number), str(machine.pid))
        return machine

    def unplug(self, number: int) -> None:
        self._in_network("ip", "link", "set", f"port{number}", "down")

    def _in_network(self, *command: str) -> None:
        subprocess.run(self.network.command(*command), check=True, capture_output=True)

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            if number in self.running:
                self.running.pop(number).release()

    def cluster(self, *numbers: int) -> Machine:
        """Start a cluster of workers with machine 1 as its head, without CPUs; return the head."""
        head = self.start(1)
        head.join(cpus=0)
        head.await_nodes(head)  # workers fail if the head starts too slowly
        others = [self.start(number) for number in numbers]
        for other in others:
            other.join(head)
        head.await_nodes(*others)
        return head


@dataclass
class Search:
    """Search of the study `s` on any machine.

    Attributes:
        command: Its command without storage.
        storage: Its storage folder, which also names its log.
        more: Further options, which replace earlier ones.
    """

    command: tuple[str, ...]
    storage: Path
    more: tuple[str, ...] = ()

    def start(self, machine: Machine) -> None:
        words = (*self.command, f"--storage={self.storage}", "--address=auto", *self.more)
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
    if not all(map(shutil.which, TOOLS)):
        pytest.skip("simulated machines need iproute2, procps and util-linux")
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    capable = int(status.partition("CapEff:")[2].split()[0], 16)
    if os.geteuid() or not (capable >> NET_ADMIN & 1 and capable >> SYS_ADMIN & 1):
        pytest.skip("simulated machines need root with CAP_NET_ADMIN and CAP_SYS_ADMIN")
    machines = Machines(tmp_path_factory.getbasetemp())
    yield machines
    machines.kill(*machines.running)
    machines.network.release()


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
    "disconnected": lambda machines, victim: machines.unplug(victim.number),
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


def test_three_nodes_far_from_s3_and_mlflow_on_postgresql_train_what_one_process_trains(
    machines: Machines,
    command: tuple[str, ...],
    sclsearch: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not [*Path("/usr/lib/postgresql").glob("*/bin/initdb")] or not shutil.which("psql"):
        pytest.skip("the test needs the Debian package postgresql")
    pytest.importorskip("psycopg2")
    few = (*command, "--configs=4", "--epochs=50")
    with in_process():
        assert sclsearch(*few, f"--storage={tmp_path / 'local'}").returncode == 0
    mlflow = "http://10.77.0.6:5000"
    for name, value in {
        "AWS_ENDPOINT_URL": "http://10.77.0.6:9000",
        "AWS_ACCESS_KEY_ID": "a-test",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "MLFLOW_TRACKING_URI": mlflow,
    }.items():
        monkeypatch.setenv(name, value)
    services = machines.start(6)
    services.start("bash", "-c", SERVICES, log="services")
    services.start("python", "-c", DELAY, log="delay")
    head = machines.cluster()
    wait_for("MLflow", lambda: not head.run("curl", "--fail", f"{mlflow}/health").returncode)
    assert head.run("python", "-c", BUCKET).returncode == 0
    nodes = [machines.start(number) for number in (2, 3, 4, 5)]
    for node, kind in zip(nodes, ("L4", "L4", "L4", "H100"), strict=True):
        node.join(head, 1, f'--resources={{"accelerator_type:{kind}": 1}}')
    head.await_nodes(*nodes)
    victim = nodes[1]
    far = ("--storage=s3://studies", f"--tracking={mlflow}", "--accelerator=L4", "--concurrency=4")
    search = Search(few, tmp_path / "far", far)
    search.start(head)
    wait_for("a seed run on the victim", lambda: victim.running(TRAINING))
    machines.unplug(victim.number)
    assert search.driver.wait(2 * PATIENCE) == 0, search.log.read_text(encoding="utf-8")
    assert search.failures() & {"node-lost", "worker-silent"}
    done = head.run("python", "-c", DOWNLOAD, f"{search.storage}/runs/")
    assert done.returncode == 0, done.stderr
    assert reproducible_results(search.storage) == reproducible_results(tmp_path / "local")
    hosts = {run["environment"]["host"] for run in stored(search.storage).values()}
    assert {"machine2", "machine4"} <= hosts <= {"machine2", "machine3", "machine4"}
    done = services.run("psql", "-h", "127.0.0.1", "-U", "postgres", "mlflow", "-Atc", FINISHED)
    assert int(done.stdout) == 1 + 4 + 4 * SEEDS
    machines.kill(*machines.running)
