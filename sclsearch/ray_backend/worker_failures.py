"""What Ray says of a seed run that was lost, and which kind of loss that is."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.air.execution._internal import actor_manager
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune.experiment import Trial

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LOST_NODE = ("node has died", "node was terminated", "node it was running on is dead")


def failure_cause(told: str) -> str:
    """Returns the kind of a trial's failure, by which it is tried again or not.

    Args:
        told: What Ray says of it.
    """
    if "OutOfMemoryError" in told or "out of memory" in told.lower():
        return "out-of-memory"
    if "UnfitNodeError" in told:
        return "node-unfit"
    if "BrokenStorageError" in told:
        return "storage-broken"
    if "StorageError" in told:
        return "storage-lost"
    # Advice on device-side assertions comes with each of CUDA's errors.
    if "device-side assert triggered" in told:
        return "gpu-assert"
    if any(sign in told for sign in LOST_NODE):
        return "node-lost"
    return "worker-silent" if "is unavailable: " in told else "worker-lost"


def ray_message(trial: Trial) -> str:
    """Returns Ray's account of a failed trial, from the trial's error file.

    Ray's own accessor reads a copy of it that arrives later.
    """
    file = Path(trial.error_file or "")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return plain(text.partition("\n")[2]) or "no reason given"


def plain(text: str) -> str:
    """Return a text without terminal escape sequences: Ray colors the names of its processes."""
    return _ESCAPES.sub("", text).strip()


def line_of(told: str) -> str:
    """Returns the line of what Ray says that tells what happened.

    Ray's own errors begin with it; in a traceback it follows the last call, and CUDA's advice
    follows it.
    """
    lines = told.splitlines()
    if not told.startswith("ray::"):
        return lines[0]
    last_call = max((number for number, line in enumerate(lines) if line[:1] == " "), default=-1)
    return lines[min(last_call + 1, len(lines) - 1)].strip()


def node_address(told: str) -> str:
    """Returns the address of the machine that Ray speaks of, nothing if it names none."""
    found = re.search(r"\bip[:=]\s*([\w.:]+)", told)
    return found[1] if found else ""


def patch_out_of_memory() -> None:
    """Makes Tune treat a worker that Ray's memory monitor killed as a failed trial.

    Ray 2.60 knows actor and task errors alone. OutOfMemoryError is neither: it ends the whole run
    if it comes while a trial runs, and leaves no cause behind if it comes while a worker starts.
    """
    manager = actor_manager.RayActorManager
    for name in ("_actor_start_failed", "_actor_task_failed"):
        original = getattr(manager, name)
        if not getattr(original, "mended", False):
            setattr(manager, name, _mended(original))


def _mended(original: Callable[..., None]) -> Callable[..., None]:
    def mended(self: Any, *, exception: Exception, **tracked: Any) -> None:
        known = isinstance(exception, RayActorError | RayTaskError)
        if isinstance(exception, RayError) and not known:
            exception = RayActorError(error_msg=f"{type(exception).__name__}: {exception}"[:400])
        original(self, exception=exception, **tracked)

    mended.mended = True  # type: ignore[attr-defined]
    return mended
