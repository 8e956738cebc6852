"""Classification of worker failures by the exceptions that Ray Tune stores."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ray import cloudpickle
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import ActorUnavailableError, OutOfMemoryError, RayActorError, RayTaskError
from ray.tune.experiment import Trial

from sclsearch.errors import first_line
from sclsearch.ray_backend.nodes import UnfitNodeError
from sclsearch.ray_backend.worker import BrokenStorageError
from sclsearch.ray_backend.worker_failures import WorkerFailure
from sclsearch.store.remote import StorageError
from sclsearch.training.device import is_out_of_memory

LOST_NODE = ("node has died", "node was terminated", "node it was running on is dead")
"""Ray has no exception type for an actor whose machine is lost."""


class KilledForMemoryError(RayActorError):  # type: ignore[misc]
    """Death of a worker that Ray's memory monitor killed."""


def failure_of(trial: Trial) -> WorkerFailure:
    """Return the failure of a trial's worker."""
    file = Path(trial.pickled_error_file or "")
    if not file.is_file():  # the worker died while it started
        return WorkerFailure("worker-lost", "no reason given")
    return classified(cloudpickle.loads(file.read_bytes()))


def classified(error: Exception) -> WorkerFailure:
    """Return the failure for an exception of Ray: its cause, one line and the machine."""
    node = re.search(r"\bip[:=]\s*([\w.:]+)", str(error))
    origin = error.cause if isinstance(error, RayTaskError) else error
    message = first_line(origin)
    if origin is not error and not isinstance(origin, UnfitNodeError | StorageError):
        message = f"{type(origin).__name__}: {message}"
    return WorkerFailure(_cause(error, origin), message[:300], node[1] if node else "")


def _cause(error: Exception, origin: Exception) -> str:
    """Return one of `RETRIES` for an exception of Ray and the exception that caused it."""
    if isinstance(error, KilledForMemoryError) or is_out_of_memory(origin):
        return "out-of-memory"
    if isinstance(origin, UnfitNodeError):
        return "node-unfit"
    if isinstance(origin, BrokenStorageError):
        return "storage-broken"
    if isinstance(origin, StorageError):
        return "storage-lost"
    # CUDA adds advice on device-side assertions to each of its errors.
    if "device-side assert triggered" in str(origin):
        return "gpu-assert"
    if isinstance(error, ActorUnavailableError):
        return "worker-silent"
    return "node-lost" if any(sign in str(error) for sign in LOST_NODE) else "worker-lost"


@cache
def patch_out_of_memory() -> None:
    """Make Tune treat a worker that Ray's memory monitor killed as a failed trial.

    Ray 2.60 handles only actor and task errors. Any other error ends the whole run while a trial
    runs, and leaves no cause while a worker starts.
    """
    for name in ("_actor_start_failed", "_actor_task_failed"):
        setattr(RayActorManager, name, _patched(getattr(RayActorManager, name)))


def _patched(handle: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Any, *, exception: Exception, **tracked: Any) -> None:
        if isinstance(exception, OutOfMemoryError):
            exception = KilledForMemoryError(error_msg=str(exception))
        handle(self, exception=exception, **tracked)

    return patched
