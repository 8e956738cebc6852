"""Lock that allows one live driver process per study, by heartbeat objects that expire.

A driver first writes a claim to the study, then lists all other claims, and only then starts.
Of two drivers, at least one therefore sees the other. A driver that was stopped between the check
and the write of its heartbeat may return beside its successor. After each heartbeat it therefore
lists the claims again, and ends if one began later. Until then, two drivers do no harm: records are
created once. The protocol needs only writes and listings, which every storage supports.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sclsearch.errors import SclsearchError
from sclsearch.store.schema import Text, Time
from sclsearch.store.storage import StoragePath, read, write

BEAT_SECONDS = 5.0
EXPIRES_SECONDS = 60.0
LOOK_SECONDS = 0.2
ADVICE = "Wait for it, stop it, or give another --study."
UNREADABLE = "hidden"
"""Start time of a process that this user may not inspect, as on shared machines."""


@dataclass(slots=True)
class _Claim:
    """Heartbeat of a driver; `token` is in the name of its file."""

    host: Text
    pid_namespace: Text | None
    pid: Annotated[int, Field(ge=1, lt=2**31)]
    process_start: Text | None
    token: Text
    begun: Time = 0.0  # when it asked for the study
    drives: bool = False
    time: Time = 0.0
    ended: bool = False

    def check(self, path: str) -> None:
        if not path.endswith(f"/driver-{self.token}.json"):
            raise ValueError(f"it is the claim of the driver {self.token!r}")

    def write(self, place: StoragePath, **changes: Any) -> None:
        write(place, {**asdict(self), "time": time.time(), **changes})


@contextmanager
def sole_driver(
    folder: StoragePath,
    show_message: Callable[[str], object] = lambda _: None,
    advice: str = ADVICE,
) -> Iterator[threading.Event]:
    """Hold the driver lock of a study; yield an event that is set if another driver takes it.

    For a driver on the same machine, the process table shows if it is alive. A killed driver can
    therefore restart at once, and a stalled driver keeps its study. A driver on another machine is
    alive if its next heartbeat arrives. It is dead after 60 seconds without a heartbeat, by the
    clock of this machine.

    `show_message` receives a message that names the driver for which this one waits; `advice` ends
    the error for a live driver.
    """
    token = uuid.uuid4().hex
    # No retries: the next heartbeat follows soon, so none should wait for an unavailable store.
    mine = (folder / f"driver-{token}.json").without_retries()
    host, pid = socket.gethostname(), os.getpid()
    me = _Claim(host, pid_namespace(), pid, process_start(pid), token, begun=time.time())
    stop, lost = threading.Event(), threading.Event()
    beat = threading.Thread(target=_beat, args=(folder, mine, me, stop, lost), daemon=True)
    me.write(mine)
    beat.start()
    try:
        _become_sole(folder, token, show_message, advice)
        me.drives = True
        me.write(mine)
        yield lost
    finally:
        stop.set()
        beat.join()
        with suppress(OSError, SclsearchError):
            _end(mine, me)


def check_no_driver(
    folder: StoragePath, show_message: Callable[[str], object], advice: str
) -> None:
    """Raise SclsearchError if a driver of a study is alive; the arguments are those above.

    The function writes to the folder, and may wait, only if the folder has the claim of a driver.
    """
    if any(name.startswith("driver") for name in folder.names()):
        with sole_driver(folder, show_message, advice):
            pass


def lost_to_another(folder: StoragePath) -> SclsearchError:
    """Return the error for a driver whose heartbeat another driver has deleted."""
    return SclsearchError(
        f"{folder.name}: this driver stalled for more than {EXPIRES_SECONDS:g} seconds, and "
        "another driver took the study. Wait until that one has ended, then run the same command "
        "to resume."
    )


def _become_sole(
    folder: StoragePath, token: str, show_message: Callable[[str], object], advice: str
) -> None:
    """Wait until no other driver claims the study; raise SclsearchError if one has priority."""
    # Token and time of each heartbeat, and when this machine first read it, by its own clock.
    heard: dict[tuple[str, float], float] = {}
    while others := _others(folder, token, heard):
        for other in others:
            known = any(name == other.token for name, _ in heard)
            again = known and (other.token, other.time) not in heard
            heard.setdefault((other.token, other.time), time.monotonic())
            # Among simultaneous claims the lowest token wins; the other drivers stop.
            if not other.drives and other.token > token:
                continue
            who = f"process {other.pid} on {other.host}"
            if _is_here(other) or again:
                raise SclsearchError(f"{folder.name}: {who} already runs this study. {advice}")
            if not known:
                show_message(
                    f"{folder.name}: {who} was running this study. Waiting up to "
                    f"{EXPIRES_SECONDS:g} s for its next heartbeat."
                )
        time.sleep(LOOK_SECONDS)


def _others(
    folder: StoragePath, token: str, heard: Mapping[tuple[str, float], float]
) -> list[_Claim]:
    """Return the heartbeats of other live drivers; delete the heartbeats of dead drivers."""
    alive = []
    for name in folder.names():
        if not name.startswith("driver") or name == f"driver-{token}.json":
            continue
        other = read(folder / name, _Claim, "Move it away, unless a driver runs this study.")
        if other is None or other.ended:
            continue
        if _alive(other, heard.get((other.token, other.time))):
            alive.append(other)
        else:
            _end(folder / name, other)
    return alive


def _end(place: StoragePath, claim: _Claim) -> None:
    """Delete a driver's claim; where nothing may be deleted, mark it as ended."""
    try:
        place.remove()
    except (OSError, SclsearchError):
        claim.write(place, ended=True)


def _beat(
    folder: StoragePath,
    mine: StoragePath,
    me: _Claim,
    stop: threading.Event,
    lost: threading.Event,
) -> None:
    while not stop.wait(BEAT_SECONDS):
        # A temporary storage outage must not end the heartbeat thread.
        with suppress(OSError, SclsearchError):
            found = read(mine, _Claim)
            gone = found is None or found.ended
            if not gone:
                me.write(mine)
            if gone or (me.drives and _has_successor(folder.without_retries(), me)):
                lost.set()  # this driver was silent so long that another took the study
                return


def _has_successor(folder: StoragePath, me: _Claim) -> bool:
    others = [one for one in _others(folder, me.token, {}) if one.drives]
    return any((one.begun, one.token) > (me.begun, me.token) for one in others)


def _alive(other: _Claim, heard: float | None) -> bool:
    if _is_here(other):
        return process_start(other.pid) in {other.process_start, UNREADABLE}
    # Clocks of two machines may differ, so measure the silence by the local clock only.
    return heard is None or time.monotonic() - heard <= EXPIRES_SECONDS


def _is_here(other: _Claim) -> bool:
    """Return True if a driver's process ID is valid in this process's PID namespace."""
    ours = pid_namespace()
    return ours is not None and other.pid_namespace == ours


def pid_namespace() -> str | None:
    """Return an identifier of the boot and PID namespace in which process IDs are unique.

    A container has its own namespace. The result is None where /proc is not available.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def process_start(pid: int) -> str | None:
    """Return the start time of a process in clock ticks after boot; None if it has ended.

    The start time distinguishes processes with the same ID, because systems reuse process IDs. The
    result is `UNREADABLE` if this user may not inspect the process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return UNREADABLE if _is_of_another(pid) else None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state == "Z" else rest[18]


def _is_of_another(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False
