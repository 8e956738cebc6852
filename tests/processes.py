"""Helpers of tests that start processes: a wait for an event, and a free port."""

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress

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
