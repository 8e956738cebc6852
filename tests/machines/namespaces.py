"""Simulated machines: Linux namespaces, connected by a network bridge.

A machine is a process that holds namespaces. Killing it ends everything in them, as a power cut
does. It also ends with the test process, so nothing remains to be cleaned up.
"""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

TOOLS = ("ip", "nsenter", "setpriv", "unshare")
NET_ADMIN, SYS_ADMIN = 12, 21
HOLD_NAMESPACES = ("setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child")
NAMESPACES = ("--net", "--pid", "--mount", "--uts", "--ipc")
SWITCH = "ip link add switch type bridge && ip link set switch up && echo up && exec sleep infinity"


def missing_requirement() -> str | None:
    """Return why this machine cannot simulate others; None if it can."""
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        return f"simulated machines need iproute2 and util-linux; {missing[0]} is missing"
    if os.geteuid():
        return "simulated machines need root"
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    capable = int(status.partition("CapEff:")[2].split()[0], 16)
    if not (capable >> NET_ADMIN & 1 and capable >> SYS_ADMIN & 1):
        return "simulated machines need CAP_NET_ADMIN and CAP_SYS_ADMIN"
    return None


def hold(*command: str, **variables: str) -> "tuple[subprocess.Popen[str], int]":
    """Start a process that holds namespaces; return it and the process ID of its first child."""
    holder = subprocess.Popen(
        [*HOLD_NAMESPACES, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
    return holder, int(children.read_text(encoding="utf-8"))


def release(holder: "subprocess.Popen[str]", child: int) -> None:
    """Kill the processes in the namespaces."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    holder.communicate(timeout=60)


class Network:
    """Network bridge between the machines."""

    def __init__(self) -> None:
        self.holder, self.pid = hold("--net", "bash", "-c", SWITCH)

    def connect(self, number: int, pid: int) -> None:
        """Connect a machine and set its address."""
        port, there = f"port{number}", ("nsenter", "--target", str(pid), "--net", "ip")
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
            subprocess.run([*there, *command.split()], check=True)

    def unplug(self, number: int) -> None:
        """Disconnect a machine."""
        self._ip("link", "set", f"port{number}", "down")

    def end(self) -> None:
        """Remove the bridge."""
        release(self.holder, self.pid)

    def _ip(self, *arguments: str) -> None:
        command = ["nsenter", "--target", str(self.pid), "--net", "ip", *arguments]
        subprocess.run(command, check=True, capture_output=True)
