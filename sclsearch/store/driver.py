"""One live driver a study: a heartbeat object that expires."""

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.store.objects import create, read, write

BEAT_SECONDS = 5.0
EXPIRES_SECONDS = 60.0


@contextmanager
def sole_driver(folder: Path) -> Iterator[None]:
    """Holds the study's heartbeat while the body runs.

    A heartbeat of this machine whose process is gone counts as expired at once, so a killed
    driver can be started again without waiting.

    Args:
        folder: The study's folder.

    Raises:
        SclsearchError: Another driver is alive.
    """
    path = folder / "driver.json"
    me = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "born": _born(os.getpid()),
        "token": uuid.uuid4().hex,
    }
    _take(path, me)
    stop = threading.Event()
    beat = threading.Thread(target=_beat, args=(path, me, stop), daemon=True)
    beat.start()
    try:
        yield
    finally:
        stop.set()
        beat.join()
        found = read(path)
        if found is not None and found["token"] == me["token"]:
            path.unlink(missing_ok=True)


def _take(path: Path, me: dict[str, Any]) -> None:
    if create(path, {**me, "time": time.time()}):
        return
    other = read(path)
    if other is not None and _alive(other):
        raise SclsearchError(
            f"{path.parent.name}: one driver at a time must run a study, but process "
            f"{other['pid']} on {other['host']} does. Wait for it, stop it, or give another "
            "--study."
        )
    write(path, {**me, "time": time.time()})
    # Two drivers that found the same dead one both write: the last of them stays.
    time.sleep(0.2)
    found = read(path)
    if found is None or found["token"] != me["token"]:
        raise SclsearchError(f"{path.parent.name}: another driver took the study just now.")


def _beat(path: Path, me: dict[str, Any], stop: threading.Event) -> None:
    while not stop.wait(BEAT_SECONDS):
        # A shared folder that is away for a while must not end the heart.
        with suppress(OSError):
            found = read(path)
            if found is not None and found["token"] != me["token"]:
                return  # this driver slept so long that another one took the study
            write(path, {**me, "time": time.time()})


def _alive(other: dict[str, Any]) -> bool:
    if time.time() - other["time"] > EXPIRES_SECONDS:
        return False
    if other["host"] != socket.gethostname():
        return True
    born: str | None = other["born"]
    return _born(other["pid"]) == born


def _born(pid: int) -> str | None:
    """Returns when a process started, None if it is gone: the number alone is used again."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state == "Z" else rest[18]
