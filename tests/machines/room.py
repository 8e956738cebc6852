"""Machines on this one: address, processes, host name, /tmp and home of their own; a cluster."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.machines.namespaces import APART, Network, hold, release

ROOT = Path(__file__).parents[2]
BOOT = Path(__file__).with_name("boot.sh")
# Ray's own settings take a minute to miss a machine that was unplugged, those of cluster/ give one
# that is told to end a minute and a half.
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
PATIENCE = 420.0


def wait_for(what: str, reached: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Waits until something is reached; fails with its name."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Machine:
    """A machine that is on.

    Args:
        network: What it is plugged into.
        number: 1 to 9, the end of its address.
        shared: Folder that it shares with the others.
        token: What its user keeps as the cluster's token.
    """

    def __init__(self, network: Network, number: int, shared: Path, token: str) -> None:
        self.number, self.name, self.ip = number, f"machine{number}", f"10.77.0.{number}"
        self.network, self.logs = network, shared / "logs"
        self.started: list[subprocess.Popen[bytes]] = []
        places = (ROOT, Path(sys.prefix), shared)
        hidden = [str(place) for place in places if place.is_relative_to("/tmp")]
        boot = ("--mount-proc", "bash", str(BOOT), self.name, *hidden)
        self.holder, self.pid = hold(*APART, *boot, TOKEN=token)
        network.connect(number, self.pid)

    def command(self, *command: str) -> list[str]:
        """Returns a command of this machine as one of the machine that holds it."""
        return ["nsenter", "--target", str(self.pid), *APART, "--", *command]

    def environment(self) -> dict[str, str]:
        """Returns the variables of its user."""
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
        """Starts a command, whose output goes to a log."""
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
        """Runs a command to its end."""
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
        """Starts Ray, without a head as the head."""
        role = [f"--address={head.ip}:6379"] if head else ["--head", "--port=6379"]
        role += [] if head else ["--include-dashboard=false"]
        own = [f"--node-ip-address={self.ip}", f"--num-cpus={cpus}", f"--num-gpus={gpus}"]
        rest = ["--object-store-memory=100000000", "--disable-usage-stats", "--block"]
        return self.start("ray", "start", *role, *own, *rest, log=f"ray-{self.name}")

    def await_nodes(self, *machines: "Machine") -> None:
        """Waits until others are in the cluster of this one."""
        names = {machine.name for machine in machines}
        wait_for(
            f"a cluster with {sorted(names)}; see {self.logs}",
            lambda: names <= {*self.run("python", "-c", NODES).stdout.split()},
        )

    def running(self, part: str) -> list[int]:
        """Returns the numbers of its processes that have a part in what they call themselves."""
        space = Path(f"/proc/{self.pid}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if part in title and (folder / "ns/pid").readlink() == space:
                    found.append(int(folder.name))
        return found

    def trains(self) -> bool:
        """Returns whether a seed run is being trained there."""
        return bool(self.running(TRAINING))

    def power_off(self) -> None:
        """Ends it and all that runs there, at once."""
        release(self.holder, self.pid)
        for process in self.started:
            process.wait(60)


@dataclass
class Room:
    """Machines that share a network, a folder and a token."""

    shared: Path
    token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    network: Network = field(default_factory=Network)
    on: dict[int, Machine] = field(default_factory=dict)

    def machine(self, number: int, token: str | None = None) -> Machine:
        """Switches a machine on, again if it was off."""
        self.off(number)
        self.on[number] = Machine(self.network, number, self.shared, token or self.token)
        return self.on[number]

    def off(self, *numbers: int) -> None:
        """Switches machines off."""
        for number in numbers:
            if number in self.on:
                self.on.pop(number).power_off()

    def cluster(self, *numbers: int, gpus: int = 0) -> Machine:
        """Returns the head, 1, of a cluster with these others; the head itself trains nothing."""
        head = self.machine(1)
        head.join(cpus=0)
        head.await_nodes(head)  # others would give up a head that is slow to start
        others = [self.machine(number) for number in numbers]
        for other in others:
            other.join(head, gpus=gpus)
        head.await_nodes(*others)
        return head

    def end(self) -> None:
        """Switches everything off."""
        self.off(*self.on)
        self.network.end()
