"""Deletion of the folders that killed searches left on this machine."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from sclsearch.store.driver import HIDDEN, born, numbering

PREFIX = "sclsearch-ray-"
OWNER = "owner.json"


@contextmanager
def scratch_folder(session: Path | None) -> Iterator[Path]:
    """Yield a folder for Ray Tune, with a record of this process.

    `session` is the folder of a Ray that belongs to this process; None on a cluster.
    """
    with TemporaryDirectory(prefix=PREFIX) as name:
        owner = {
            "pid": os.getpid(),
            "born": born(os.getpid()),
            "host": socket.gethostname(),
            "numbering": numbering(),
            "session": session and str(session),
        }
        Path(name, OWNER).write_text(json.dumps(owner), encoding="utf-8")
        yield Path(name)


def sweep() -> None:
    """Delete the folders of killed searches on this machine; Linux ends their Ray processes."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        try:
            owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
            if folder.stat().st_uid == os.getuid() and _is_dead(owner):
                session = Path(owner["session"] or "none")
                if session.name.startswith("session_") and session.exists():
                    # A Ray process that is still ending may make it again: the next sweep looks.
                    shutil.rmtree(session, ignore_errors=True)
                else:
                    shutil.rmtree(folder, ignore_errors=True)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue


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
