"""Cleanup of Ray processes and folders that killed searches left on this machine."""

import json
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from ray._private import worker

from sclsearch.store.driver import HIDDEN, born, numbering

PREFIX = "sclsearch-ray-"
OWNER = "owner.json"
LOOK_SECONDS = 0.2
ENDED = 2
"""Exit code after the death of Ray's processes; the same command resumes the search."""
_NEEDED = {"gcs_server": "GCS", "raylet": "raylet"}


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder for Ray Tune, with a record of this process and its Ray processes."""
    with TemporaryDirectory(prefix=PREFIX) as name:
        node = worker._global_node
        ours = node is not None and node.is_head()
        owner = {
            "pid": os.getpid(),
            "born": born(os.getpid()),
            "host": socket.gethostname(),
            "numbering": numbering(),
            "groups": sorted({os.getpgid(pid) for _, pid in _processes()}) if ours else [],
            "session": node.get_session_dir_path() if ours else None,
        }
        Path(name, OWNER).write_text(json.dumps(owner), encoding="utf-8")
        yield Path(name)


def sweep() -> None:
    """End the Ray processes, and delete the folders, of killed searches on this machine."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        try:
            owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
            if folder.stat().st_uid == os.getuid() and _is_dead(owner):
                _delete(folder, owner)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue


@contextmanager
def watched() -> Iterator[None]:
    """End this process with a one-line error if one of its own Ray processes dies in the body.

    Ray's core would end it only after 15 to 60 seconds, and print pages of its log.
    """
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(stop,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _watch(stop: threading.Event) -> None:
    while not stop.wait(LOOK_SECONDS):
        for kind, pid in _processes():
            if kind in _NEEDED and born(pid) is None and not stop.is_set():
                _end(_NEEDED[kind])


def _end(kind: str) -> None:
    shown = "\x1b[?25h\r\x1b[K" if sys.stderr.isatty() else ""  # a live line hides the cursor
    sys.stderr.write(
        f"{shown}Ray: its {kind} on this machine died. Run the same command to resume; nothing "
        "finished is lost.\n"
    )
    sys.stderr.flush()
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, ValueError):
            owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
            if owner["pid"] == os.getpid():
                _delete(folder, owner)
    os._exit(ENDED)


def _processes() -> Iterable[tuple[str, int]]:
    """Return the kind and the process id of each local Ray process of this search."""
    node = worker._global_node
    every = {} if node is None else node.all_processes
    return [(kind, info.process.pid) for kind, infos in every.items() for info in infos]


def _is_dead(owner: dict[str, Any]) -> bool:
    """Return True if the owner process is certainly gone.

    Machines and containers may share the folder. A process of another machine counts as alive.
    """
    ours, theirs = numbering(), owner["numbering"]
    if theirs == ours:
        return born(owner["pid"]) not in {owner["born"], HIDDEN}
    if ours is None or theirs is None or owner["host"] != socket.gethostname():
        return False
    return str(theirs).split()[0] != ours.split()[0]  # this machine has restarted since


def _delete(folder: Path, owner: dict[str, Any]) -> None:
    session = owner["session"]
    session = Path(session) if session and Path(session).name.startswith("session_") else None
    if owner["numbering"] == numbering():
        for process in _of_search({*owner["groups"]} - {os.getpgid(0)}, session):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
    if session is not None:
        shutil.rmtree(session, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _of_search(groups: set[int], session: Path | None) -> Iterator[int]:
    """Yield the ids of a search's Ray processes that still belong to it.

    Another process may have got the same id since. Workers have their own process groups. A worker
    that is still starting would recreate the session folder after its deletion.
    """
    named = f"--session-name={session.name}".encode() if session else None
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, ProcessLookupError):
            command = (entry / "cmdline").read_bytes()
            ray = b"ray::" in command or b"/ray/" in command
            if ray and (os.getpgid(int(entry.name)) in groups or named in command.split(b"\0")):
                yield int(entry.name)
