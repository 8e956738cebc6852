"""Simulated machines with separate address, processes, host name, /tmp and home."""

import os
import secrets
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.machines.namespaces import NAMESPACES, Network, hold, release
from tests.processes import PATIENCE, wait_for

ROOT = Path(__file__).parents[2]
BOOT = Path(__file__).with_name("boot.sh")
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


class Machine:
    """Running simulated machine.

    Args:
        network: Network that connects it to the others.
        number: Last byte of its address, 1 to 9.
        shared: Folder that all machines share.
        token: Cluster token in the home of its user.
    """

    def __init__(self, network: Network, number: int, shared: Path, token: str) -> None:
        self.number, self.name, self.ip = number, f"machine{number}", f"10.77.0.{number}"
        self.network, self.logs = network, shared / "logs"
        self.started: list[subprocess.Popen[bytes]] = []
        needed = (ROOT, Path(sys.prefix), shared)
        hidden = [str(folder) for folder in needed if folder.is_relative_to("/tmp")]
        boot = ("--mount-proc", "bash", str(BOOT), self.name, *hidden)
        self.holder, self.pid = hold(*NAMESPACES, *boot, TOKEN=token)
        network.connect(number, self.pid)

    def command(self, *command: str) -> list[str]:
        """Return the command of the host that runs a command on this machine."""
        return ["nsenter", "--target", str(self.pid), *NAMESPACES, "--", *command]

    def environment(self) -> dict[str, str]:
        """Return the environment variables of its user."""
        own = {
            "HOME": "/tmp/home",
            "HF_HOME": os.environ.get("HF_HOME", str(Path.home() / ".cache/huggingface")),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "token",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        return {**kept, **SETTINGS, **own}

    def start(self, *command: str, log: str) -> "subprocess.Popen[bytes]":
        """Start a command with its output in a log file."""
        self.logs.mkdir(exist_ok=True)
        with (self.logs / log).open("ab") as file:
            process = subprocess.Popen(
                self.command(*command),
                cwd="/",
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command and wait for its end."""
        return subprocess.run(
            self.command(*command),
            cwd="/",
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def join(
        self, head: "Machine | None" = None, cpus: int = 1, gpus: int = 0
    ) -> "subprocess.Popen[bytes]":
        """Start Ray as a worker node of `head`, or as the head without it."""
        role = [f"--address={head.ip}:6379"] if head else ["--head", "--port=6379"]
        role += [] if head else ["--include-dashboard=false"]
        own = [f"--node-ip-address={self.ip}", f"--num-cpus={cpus}", f"--num-gpus={gpus}"]
        rest = ["--object-store-memory=100000000", "--disable-usage-stats", "--block"]
        return self.start("ray", "start", *role, *own, *rest, log=f"ray-{self.name}")

    def await_nodes(self, *machines: "Machine") -> None:
        """Wait until Ray lists machines as nodes of this machine's cluster."""
        names = {machine.name for machine in machines}
        wait_for(
            f"a cluster with {sorted(names)}; see {self.logs}",
            lambda: names <= {*self.run("python", "-c", NODES).stdout.split()},
        )

    def running(self, part: str) -> list[int]:
        """Return the IDs of its processes whose command line contains a text."""
        space = Path(f"/proc/{self.pid}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if part in title and (folder / "ns/pid").readlink() == space:
                    found.append(int(folder.name))
        return found

    def trains(self) -> bool:
        """Return whether a worker trains a seed run on it."""
        return bool(self.running(TRAINING))

    def kill(self) -> None:
        """Kill all its processes."""
        release(self.holder, self.pid)
        for process in self.started:
            process.wait(60)


@dataclass
class Machines:
    """Simulated machines that share a network, a folder and a token."""

    shared: Path
    token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    network: Network = field(default_factory=Network)
    running: dict[int, Machine] = field(default_factory=dict)

    def start(self, number: int, token: str | None = None) -> Machine:
        """Start a machine; restart it if it runs."""
        self.kill(number)
        self.running[number] = Machine(self.network, number, self.shared, token or self.token)
        return self.running[number]

    def kill(self, *numbers: int) -> None:
        """Kill machines."""
        for number in numbers:
            if number in self.running:
                self.running.pop(number).kill()

    def cluster(self, *numbers: int, gpus: int = 0) -> Machine:
        """Start a cluster of workers with machine 1 as its head, without CPUs; return the head."""
        head = self.start(1)
        head.join(cpus=0)
        head.await_nodes(head)  # workers fail if the head starts too slowly
        others = [self.start(number) for number in numbers]
        for other in others:
            other.join(head, gpus=gpus)
        head.await_nodes(*others)
        return head

    def end(self) -> None:
        """Kill all machines and remove the network."""
        self.kill(*self.running)
        self.network.end()
