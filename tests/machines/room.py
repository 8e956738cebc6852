"""Machines on this one: network, processes, host name, /tmp and home of their own, and a cluster.

A machine is a process that holds namespaces. With its end all of it is gone, as by a power cut, and
it ends with the process of the tests, however that dies: nothing is left to be cleaned up.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOOLS = ("ip", "nsenter", "setpriv", "unshare")
NET_ADMIN, SYS_ADMIN = 12, 21
HELD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child")
APART = ("--net", "--pid", "--mount", "--uts", "--ipc")
SWITCH = "ip link add switch type bridge && ip link set switch up && echo up && exec sleep infinity"
# Under /tmp lie the tests' folders and maybe the checkout: those come back at their own place.
BOOT = """
set -e
hostname "$1"
mount -t tmpfs none /dev/shm
mount -t tmpfs none /mnt
echo "127.0.0.1 localhost" > /mnt/hosts
for n in 1 2 3 4 5 6 7 8 9; do echo "10.77.0.$n machine$n" >> /mnt/hosts; done
mount --bind /mnt/hosts /etc/hosts
sed 's|:/root:|:/tmp/home:|; /^sshd:/d' /etc/passwd > /mnt/passwd
echo 'sshd:x:74:65534::/run/sshd:/usr/sbin/nologin' >> /mnt/passwd
mount --bind /mnt/passwd /etc/passwd
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
shift
for folder; do n=$((n + 1)); mkdir "/mnt/$n"; mount --bind "$folder" "/mnt/$n"; done
mount -t tmpfs none /tmp
n=9
for folder; do n=$((n + 1)); mkdir -p "$folder"; mount --bind "/mnt/$n" "$folder"; done
mkdir /tmp/home
(umask 077; mkdir /tmp/home/.ray; printf %s "$TOKEN" > /tmp/home/.ray/auth_token)
echo up
while :; do sleep 1000 & wait; done
"""
# Ray's own settings take a minute to miss a machine that was unplugged.
HEALTH = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
}
NODES = (
    "import ray; ray.init('auto', log_to_driver=False, logging_level='error'); "
    "print(*(node['NodeManagerHostname'] for node in ray.nodes() if node['Alive']))"
)
TRAINING = "ray::ImplicitFunc.train"
PATIENCE = 420.0


def lacking() -> str | None:
    """Returns what keeps this machine from holding others, None if nothing does."""
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        return f"machines are made by iproute2 and util-linux, but there is no {missing[0]}"
    if os.geteuid():
        return "machines are made by root"
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    capable = int(status.partition("CapEff:")[2].split()[0], 16)
    if not (capable >> NET_ADMIN & 1 and capable >> SYS_ADMIN & 1):
        return "machines are made with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    return None


def wait_for(what: str, reached: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Waits until something is reached; fails with its name."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def _hold(*command: str, **variables: str) -> "tuple[subprocess.Popen[str], int]":
    """Returns a process that has said that it is up, and the number of its first child."""
    holder = subprocess.Popen(
        [*HELD, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
    return holder, int(children.read_text(encoding="utf-8"))


def _release(holder: "subprocess.Popen[str]", child: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    holder.communicate(timeout=60)


class Network:
    """A switch that machines are plugged into."""

    def __init__(self) -> None:
        self.holder, self.pid = _hold("--net", "bash", "-c", SWITCH)

    def connect(self, number: int, pid: int) -> None:
        """Gives a machine its address."""
        port, there = f"port{number}", ("nsenter", "--target", str(pid), "--net", "ip")
        with suppress(subprocess.CalledProcessError):
            self._ip("link", "delete", port)  # of a machine that is just going down
        self._ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        self._ip("link", "set", port, "master", "switch", "up")
        for command in (
            "link set lo up",
            f"address add 10.77.0.{number}/24 dev eth0",
            "link set eth0 up",
            "route add default via 10.77.0.254",
        ):
            subprocess.run([*there, *command.split()], check=True)

    def unplug(self, number: int) -> None:
        """Pulls a machine's cable."""
        self._ip("link", "set", f"port{number}", "down")

    def end(self) -> None:
        """Switches it off."""
        _release(self.holder, self.pid)

    def _ip(self, *arguments: str) -> None:
        command = ["nsenter", "--target", str(self.pid), "--net", "ip", *arguments]
        subprocess.run(command, check=True, capture_output=True)


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
        boot = ("--mount-proc", "bash", "-c", BOOT, "bash", self.name, *hidden)
        self.holder, self.pid = _hold(*APART, *boot, TOKEN=token)
        network.connect(number, self.pid)

    def command(self, *command: str) -> list[str]:
        """Returns a command of this machine as one of the machine that holds it."""
        return ["nsenter", "--target", str(self.pid), *APART, "--", *command]

    def environment(self) -> dict[str, str]:
        """Returns the variables of its user."""
        own = {
            "HOME": "/tmp/home",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "token",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        return {**kept, **HEALTH, **own}

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

    def join(self, head: "Machine | None" = None, cpus: int = 1) -> "subprocess.Popen[bytes]":
        """Starts Ray, without a head as the head."""
        role = [f"--address={head.ip}:6379"] if head else ["--head", "--port=6379"]
        role += [] if head else ["--include-dashboard=false"]
        own = [f"--node-ip-address={self.ip}", f"--num-cpus={cpus}", "--num-gpus=0"]
        rest = ["--object-store-memory=100000000", "--disable-usage-stats", "--block"]
        return self.start("ray", "start", *role, *own, *rest, log=f"ray-{self.name}")

    def trains(self) -> bool:
        """Returns whether a seed run is being trained there."""
        space = Path(f"/proc/{self.pid}/ns/pid").readlink()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                title = (folder / "cmdline").read_bytes()
                if title.startswith(TRAINING.encode()) and (folder / "ns/pid").readlink() == space:
                    return True
        return False

    def power_off(self) -> None:
        """Ends it and all that runs there, at once."""
        _release(self.holder, self.pid)
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

    def cluster(self, *numbers: int) -> Machine:
        """Returns the head, 1, of a cluster with these others; the head itself trains nothing."""
        head = self.machine(1)
        head.join(cpus=0)
        for number in numbers:
            self.machine(number).join(head)
        names = {f"machine{number}" for number in (1, *numbers)}
        wait_for(
            f"a cluster of {sorted(names)}; see {head.logs}",
            lambda: names <= {*head.run("python", "-c", NODES).stdout.split()},
        )
        return head

    def end(self) -> None:
        """Switches everything off."""
        self.off(*self.on)
        self.network.end()
