"""Simulated machines with separate address, processes, host name, /tmp and home.

A machine is a process that holds Linux namespaces, which a network bridge connects. Killing it ends
everything in them, as a power cut does. It also ends with the test process, so nothing remains to
be cleaned up.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.processes import PATIENCE, wait_for

ROOT = Path(__file__).parents[2]
BOOT = Path(__file__).with_name("boot.sh")
NET_ADMIN, SYS_ADMIN = 12, 21
HOLD_NAMESPACES = ("setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child")
NAMESPACES = ("--net", "--pid", "--mount", "--uts", "--ipc")
SWITCH = "ip link add switch type bridge && ip link set switch up && echo up && exec sleep infinity"
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


def missing_requirement() -> str | None:
    """Return why this machine cannot simulate others; None if it can."""
    if not all(shutil.which(name) for name in ("ip", "nsenter", "setpriv", "unshare")):
        return "simulated machines need iproute2 and util-linux"
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    capable = int(status.partition("CapEff:")[2].split()[0], 16)
    if os.geteuid() or not (capable >> NET_ADMIN & 1 and capable >> SYS_ADMIN & 1):
        return "simulated machines need root with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    return None


class Namespaces:
    """Process that holds namespaces; `pid` is its first child."""

    def __init__(self, *command: str, **variables: str) -> None:
        self.holder = subprocess.Popen(
            [*HOLD_NAMESPACES, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, **variables},
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n"
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.pid = int(children.read_text(encoding="utf-8"))

    def release(self) -> None:
        """Kill the processes in the namespaces."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.holder.communicate(timeout=60)


class Network(Namespaces):
    """Network bridge between the machines."""

    def __init__(self) -> None:
        super().__init__("--net", "bash", "-c", SWITCH)

    def connect(self, number: int, pid: int) -> None:
        """Connect a machine and set its address."""
        port = f"port{number}"
        with suppress(subprocess.CalledProcessError):
            self._ip("link", "delete", port)  # of a machine that is shutting down
        self._ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        self._ip("link", "set", port, "master", "switch", "up")
        for command in (
            "link set lo up",
            f"address add 10.77.0.{number}/24 dev eth0",
            "link set eth0 up",
            "route add default via 10.77.0.254",
        ):
            self._ip(*command.split(), pid=pid)

    def unplug(self, number: int) -> None:
        self._ip("link", "set", f"port{number}", "down")

    def _ip(self, *arguments: str, pid: int | None = None) -> None:
        command = ["nsenter", "--target", str(pid or self.pid), "--net", "ip", *arguments]
        subprocess.run(command, check=True, capture_output=True)


class Machine(Namespaces):
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
        self.logs.mkdir(exist_ok=True)
        self.started: list[subprocess.Popen[bytes]] = []
        needed = (ROOT, Path(sys.prefix), shared)
        hidden = [str(folder) for folder in needed if folder.is_relative_to("/tmp")]
        boot = ("--mount-proc", "bash", str(BOOT), self.name, *hidden)
        super().__init__(*NAMESPACES, *boot, TOKEN=token)
        network.connect(number, self.pid)

    def command(self, *command: str) -> list[str]:
        """Return the command of the host that runs a command on this machine."""
        return ["nsenter", "--target", str(self.pid), *NAMESPACES, "--", *command]

    def environment(self) -> dict[str, str]:
        """Return the environment variables of its user."""
        users = {name: one for name, one in os.environ.items() if not name.startswith("RAY_")}
        own = {
            "HOME": "/tmp/home",
            "HF_HOME": os.environ.get("HF_HOME", str(Path.home() / ".cache/huggingface")),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "token",
        }
        return {**users, **SETTINGS, **own}

    def start(self, *command: str, log: str) -> "subprocess.Popen[bytes]":
        """Start a command with its output in a log file."""
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

    def join(self, head: "Machine | None" = None, cpus: int = 1) -> None:
        """Start Ray as a worker node of `head`, or as the head without it."""
        role = [f"--address={head.ip}:6379"] if head else ["--head", "--port=6379"]
        role += [] if head else ["--include-dashboard=false"]
        own = [f"--node-ip-address={self.ip}", f"--num-cpus={cpus}", "--num-gpus=0"]
        rest = ["--object-store-memory=100000000", "--disable-usage-stats", "--block"]
        self.start("ray", "start", *role, *own, *rest, log=f"ray-{self.name}")

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

    def release(self) -> None:
        super().release()
        for process in self.started:
            process.wait(60)


class Machines:
    """Simulated machines that share a network, a folder and a token."""

    def __init__(self, shared: Path) -> None:
        self.shared, self.token, self.network = shared, secrets.token_hex(32), Network()
        self.running: dict[int, Machine] = {}

    def start(self, number: int, token: str | None = None) -> Machine:
        """Start a machine; restart it if it runs."""
        self.kill(number)
        self.running[number] = Machine(self.network, number, self.shared, token or self.token)
        return self.running[number]

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

    def end(self) -> None:
        self.kill(*self.running)
        self.network.release()
