"""What machines on this one are made of: namespaces, and a switch that they are plugged into.

A machine is a process that holds namespaces. With its end all of it is gone, as by a power cut, and
it ends with the process of the tests, however that dies: nothing is left to be cleaned up.
"""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

TOOLS = ("ip", "nsenter", "setpriv", "unshare")
NET_ADMIN, SYS_ADMIN = 12, 21
HELD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child")
APART = ("--net", "--pid", "--mount", "--uts", "--ipc")
SWITCH = "ip link add switch type bridge && ip link set switch up && echo up && exec sleep infinity"


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


def hold(*command: str, **variables: str) -> "tuple[subprocess.Popen[str], int]":
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


def release(holder: "subprocess.Popen[str]", child: int) -> None:
    """Ends what is held, at once."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    holder.communicate(timeout=60)


class Network:
    """A switch that machines are plugged into."""

    def __init__(self) -> None:
        self.holder, self.pid = hold("--net", "bash", "-c", SWITCH)

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
        release(self.holder, self.pid)

    def _ip(self, *arguments: str) -> None:
        command = ["nsenter", "--target", str(self.pid), "--net", "ip", *arguments]
        subprocess.run(command, check=True, capture_output=True)
