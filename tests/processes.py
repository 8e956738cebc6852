"""Helpers of tests that start processes: a wait for an event, free ports, and descendants."""

import os
import secrets
import signal
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE = 420.0


def wait_for(event: str, happened: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until an event has happened; fail with its name after a timeout."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, event
        time.sleep(0.05)


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a server listens on a port."""
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


def free_port() -> int:
    """Return a free port below the ephemeral range, from which no other process gets one."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("", port)):
            return port


class Processes:
    """Processes of one test module and their descendants, also after their parents' death."""

    def __init__(self) -> None:
        self.environment = {"SCLSEARCH_TEST_MARK": uuid.uuid4().hex}  # marks them

    def titles(self) -> dict[int, str]:
        """Return the command lines of the running processes by process ID."""
        (mark,) = ("=".join(pair).encode() for pair in self.environment.items())
        titles, marked, parents = dict[int, str](), set[int](), dict[int, int]()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                pid = int(folder.name)
                parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                titles[pid] = (folder / "cmdline").read_text().replace("\0", " ").strip()
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    marked.add(pid)
        # A process of Ray that sets a long title may overwrite its environment.
        own = {pid for pid in parents if {pid, parents[pid]} & marked} - {os.getpid()}
        return {pid: title for pid, title in titles.items() if title and pid in own}

    def named(self, part: str) -> list[int]:
        """Return the IDs of the processes whose command line contains a text."""
        return [pid for pid, title in self.titles().items() if part in title]

    def kill(self) -> None:
        """Kill all of them, because Ray's agents outlive a killed driver."""
        for pid in self.titles():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
