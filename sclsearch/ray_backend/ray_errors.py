"""Classification of worker failures by Ray's error messages."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.air.execution._internal import actor_manager
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune.experiment import Trial

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Terminal escape sequences that color Ray's process names."""
LOST_NODE = ("node has died", "node was terminated", "node it was running on is dead")


def failure_cause(message: str) -> str:
    """Return the cause of a failure, by Ray's message; it determines the number of retries."""
    if "OutOfMemoryError" in message or "out of memory" in message.lower():
        return "out-of-memory"
    if "UnfitNodeError" in message:
        return "node-unfit"
    if "BrokenStorageError" in message:
        return "storage-broken"
    if "StorageError" in message:
        return "storage-lost"
    # CUDA adds advice on device-side assertions to each of its errors.
    if "device-side assert triggered" in message:
        return "gpu-assert"
    if any(sign in message for sign in LOST_NODE):
        return "node-lost"
    return "worker-silent" if "is unavailable: " in message else "worker-lost"


def ray_message(trial: Trial) -> str:
    """Return Ray's error message of a failed trial, from the trial's error file.

    Ray's own accessor reads a copy of the file that arrives later.
    """
    file = Path(trial.error_file or "")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return _ESCAPES.sub("", text.partition("\n")[2]).strip() or "no reason given"


def line_of(message: str) -> str:
    """Return the line of Ray's error message that describes the error.

    In Ray's own errors it is the first line. In a traceback it follows the last call and precedes
    CUDA's advice.
    """
    lines = message.splitlines()
    if not message.startswith("ray::"):
        return lines[0]
    last_call = max((number for number, line in enumerate(lines) if line[:1] == " "), default=-1)
    return lines[min(last_call + 1, len(lines) - 1)].strip()


def node_address(message: str) -> str:
    """Return the machine address in Ray's error message, or an empty string without one."""
    found = re.search(r"\bip[:=]\s*([\w.:]+)", message)
    return found[1] if found else ""


def patch_out_of_memory() -> None:
    """Make Tune treat a worker that Ray's memory monitor killed as a failed trial.

    Ray 2.60 handles only actor and task errors; OutOfMemoryError is neither. It ends the whole run
    if it occurs while a trial runs. It leaves no cause if it occurs while a worker starts.
    """
    manager = actor_manager.RayActorManager
    for name in ("_actor_start_failed", "_actor_task_failed"):
        original = getattr(manager, name)
        if not getattr(original, "patched", False):
            setattr(manager, name, _patched(original))


def _patched(original: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Any, *, exception: Exception, **tracked: Any) -> None:
        known = isinstance(exception, RayActorError | RayTaskError)
        if isinstance(exception, RayError) and not known:
            exception = RayActorError(error_msg=f"{type(exception).__name__}: {exception}"[:400])
        original(self, exception=exception, **tracked)

    patched.patched = True  # type: ignore[attr-defined]
    return patched
