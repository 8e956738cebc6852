"""One live driver a study: heartbeat objects that expire.

A driver first says that it asks for the study, then looks who else does, and only then drives. So
of two, one sees the other whatever the store: nothing but writing and listing is needed.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.store.objects import names, read, remove, without_retries, write
from sclsearch.store.storage import StoragePath

BEAT_SECONDS = 5.0
EXPIRES_SECONDS = 60.0
LOOK_SECONDS = 0.2
HIDDEN = "hidden"
"""When a process started that this user may not look at, as on machines that many share."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat of another driver: its time by that one's clock, when it was seen by ours."""

    time: float
    heard: float


@contextmanager
def sole_driver(
    folder: StoragePath, tell: Callable[[str], object] = lambda _: None
) -> Iterator[threading.Event]:
    """Holds the study's heartbeat while the body runs; yields what is set once it is lost.

    On this machine the process itself tells whether it is alive: a killed driver can be started
    again without waiting, and one that was held up keeps its study. Of one elsewhere the next beat
    tells, or that none comes for a minute by the clock of this machine.

    Args:
        folder: The study's folder.
        tell: Takes the line that says for whom it waits.

    Raises:
        SclsearchError: Another driver is alive.
    """
    token = uuid.uuid4().hex
    # Every beat is soon followed by another: none waits long for a store that is away.
    mine = without_retries(folder / f"driver-{token}.json")
    me = {
        "host": socket.gethostname(),
        "numbering": numbering(),
        "pid": os.getpid(),
        "born": born(os.getpid()),
        "token": token,
        "drives": False,
    }
    stop, lost = threading.Event(), threading.Event()
    beat = threading.Thread(target=_beat, args=(mine, me, stop, lost), daemon=True)
    write(mine, {**me, "time": time.time()})
    beat.start()
    try:
        _become_sole(folder, token, tell)
        me["drives"] = True
        write(mine, {**me, "time": time.time()})
        yield lost
    finally:
        stop.set()
        beat.join()
        with suppress(OSError, SclsearchError):
            remove(mine)


def lost_to_another(folder: StoragePath) -> SclsearchError:
    """Returns the error for a driver that finds its heartbeat gone."""
    return SclsearchError(
        f"{folder.name}: its driver must be heard of every {EXPIRES_SECONDS:g} seconds, but this "
        "one was silent for longer and another one took the study. Leave it to that one; once it "
        "has ended, the same command goes on."
    )


def _become_sole(folder: StoragePath, token: str, tell: Callable[[str], object]) -> None:
    """Waits until no other driver asks for the study; raises if one has a better claim."""
    heard: dict[str, Beat] = {}
    while others := _others(folder, token, heard):
        for other in others:
            known = heard.get(other["token"])
            again = known is not None and known.time != other["time"]
            if known is None or again:
                heard[other["token"]] = Beat(other["time"], time.monotonic())
            # Of those that ask at the same time the first by token stays; the others give way.
            if not other.get("drives", True) and other["token"] > token:
                continue
            who = f"process {other['pid']} on {other['host']}"
            if _is_here(other) or again:
                raise SclsearchError(
                    f"{folder.name}: one driver at a time must run a study, but {who} does. Wait "
                    "for it, stop it, or give another --study."
                )
            if known is None:
                tell(
                    f"{folder.name}: {who} was driving this study. Waiting up to "
                    f"{EXPIRES_SECONDS:g} s for a sign of it."
                )
        time.sleep(LOOK_SECONDS)


def _others(folder: StoragePath, token: str, heard: Mapping[str, Beat]) -> list[dict[str, Any]]:
    """Returns the other drivers that are alive; deletes the heartbeats of the dead."""
    alive = []
    for name in names(folder):
        if not name.startswith("driver") or name == f"driver-{token}.json":
            continue
        other = read(folder / name, "Move it away, unless a driver runs this study.")
        if other is None:
            continue
        if _alive(other, heard.get(other["token"])):
            alive.append(other)
        else:
            remove(folder / name)
    return alive


def _beat(
    mine: StoragePath, me: dict[str, Any], stop: threading.Event, lost: threading.Event
) -> None:
    while not stop.wait(BEAT_SECONDS):
        # A storage that is away for a while must not end the heart.
        with suppress(OSError, SclsearchError):
            if read(mine) is None:
                lost.set()  # this driver slept so long that another one took the study
                return
            write(mine, {**me, "time": time.time()})


def _alive(other: dict[str, Any], known: Beat | None) -> bool:
    if _is_here(other):
        return born(other["pid"]) in {other["born"], HIDDEN}
    # Clocks of two machines may differ by any amount: only this one's tells how long it was silent.
    if known is None or known.time != other["time"]:
        return True
    return time.monotonic() - known.heard <= EXPIRES_SECONDS


def _is_here(other: dict[str, Any]) -> bool:
    """Returns whether a driver's number tells here whether it is alive."""
    ours = numbering()
    return ours is not None and other.get("numbering") == ours


def numbering() -> str | None:
    """Returns within what a process is known by its number: a boot, and of a container its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def born(pid: int) -> str | None:
    """Returns when a process started, None if it is gone: the number alone is used again."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return HIDDEN if _is_of_another(pid) else None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state == "Z" else rest[18]


def _is_of_another(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False
