"""Start of Ray on this machine, or connection to an existing cluster."""

import gc
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import ray
from ray._private import services
from ray._private.authentication.authentication_token_generator import (
    generate_new_authentication_token,
)
from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from ray._private.utils import get_num_cpus
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError, RayError

from sclsearch.errors import SclsearchError
from sclsearch.methods import NamedMethod
from sclsearch.ray_backend.leftovers import sweep, watched
from sclsearch.ray_backend.local import errors_unprinted, sigterm_kept, start_local
from sclsearch.store.local import publish
from sclsearch.study.resources import CLUSTER_SLOTS, first_sentence, token_refused

ENVIRONMENT = {
    # Tune prints its own table even at verbosity 0 unless it uses its old output.
    "RAY_AIR_NEW_OUTPUT": "0",
    # Each trial would write CSV, JSON and TensorBoard files that nobody reads.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # By default Ray shows all GPUs to trials that request none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
}
MOST_AT_A_TIME = 1000
"""Upper limit of trials at a time: Ray holds a placement group for each, tested to about 1000."""

_ANSWER_SECONDS = 5.0
_TOKEN_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@contextmanager
def started_ray(address: str | None) -> Iterator[None]:
    """Start Ray on this machine, or join a cluster, while the body runs.

    Without an address, the function starts its own Ray even if another one runs on the machine.

    Raises:
        SclsearchError: The cluster does not answer or rejects this machine's token, Ray does not
            start, or this process already uses Ray.
    """
    if ray.is_initialized():
        raise SclsearchError(
            "Ray: already runs in this process, but a search starts its own. Call ray.shutdown() "
            "first, or search in a separate process."
        )
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Tune prints the traceback of every failed trial; the seed run's record already has the cause.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    try:
        with sigterm_kept(), errors_unprinted():
            if address is None:
                sweep()
                keep_token_private()
                start_local(cores(), quiet)
            else:
                _join(address, quiet)
        with nullcontext() if address else watched():
            yield
    finally:
        _shut_down()


def _shut_down() -> None:
    """Shut Ray down without garbage collection of Ray objects in the meantime.

    If a reference to a Ray object is freed just after the shutdown, Ray's core silently ends the
    process with exit code 1. The garbage collector may free one in any thread.
    """
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        if collecting:
            gc.enable()


def keep_token_private() -> None:
    """Write a local Ray's token so that only its user can read it, unless a token exists.

    Ray itself would write it readable by every user of the machine.
    """
    if any(name in os.environ for name in _TOKEN_VARIABLES):
        return
    path = Path.home() / ".ray" / "auth_token"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(generate_new_authentication_token())
        if not publish(Path(part), path):
            with suppress(PermissionError):
                path.chmod(0o600)
    finally:
        Path(part).unlink(missing_ok=True)


def _join(address: str, quiet: Mapping[str, Any]) -> None:
    # Ray drops a pending worker if another one is free, and logs each case.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        # Ray loads an existing token automatically only for a Ray that it starts itself.
        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        place = services.canonicalize_bootstrap_address_or_die(address)
        host, _, port = place.rpartition(":")
        # Ray itself waits minutes if nothing answers, and 20 seconds if the token is wrong.
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        GcsClient(address=place)
        with _standard_error_closed():  # Ray would print a note on its log level there
            ray.init(address=place, **quiet)
    except AuthenticationError as error:
        raise token_refused(f"--address {address}", error) from None
    except (OSError, ValueError, RuntimeError, RayError) as error:
        raise SclsearchError(
            f"--address {address}: no Ray cluster answers: {first_sentence(str(error))}. Start "
            "one, or give HOST:PORT of its head."
        ) from error


@contextmanager
def _standard_error_closed() -> Iterator[None]:
    """Discard output of Ray's C++ core to standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def send_own_code(method: NamedMethod) -> None:
    """Serialize a user's own method by value, since workers do not have its file."""
    if method.digest:
        ray.cloudpickle.register_pickle_by_value(sys.modules[method.kind.__module__])


def fitting(cpus: int, gpus: float) -> int:
    """Return the number of seed runs that fit on the present nodes at the same time."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(_fitting_on(node, cpus, gpus) for node in nodes)


def fitting_here(cpus: int, gpus: float) -> int:
    """Return the number of seed runs that a local Ray can run at a time, before it starts."""
    return _fitting_on(_here(gpus), cpus, gpus)


def check_room_here(cpus: int, gpus: float) -> None:
    """Raise SclsearchError if a local Ray would have no room for one seed run."""
    if not fitting_here(cpus, gpus):
        raise _no_room(_here(gpus), cpus, gpus)


def _here(gpus: float) -> dict[str, float]:
    import torch

    return {"CPU": cores(), "GPU": torch.cuda.device_count() if gpus else 0}


def _no_room(there: Mapping[str, float], cpus: int, gpus: float) -> SclsearchError:
    return SclsearchError(
        f"--cpus-per-trial {cpus}, --gpus-per-trial {gpus:g}: a seed run does not fit into this "
        f"machine, which has {there.get('CPU', 0):g} cores and {there.get('GPU', 0):g} GPUs. Give "
        "smaller numbers."
    )


def at_a_time(given: int | None, cpus: int, gpus: float, *, joined: bool) -> int:
    """Return the number of seed runs to request from Ray at a time.

    A cluster may grow with the requests, so its default is at least `CLUSTER_SLOTS`.

    Args:
        given: The user's value; None for the default.
        cpus: CPU cores per seed run.
        gpus: GPUs per seed run.
        joined: Whether Ray is an existing cluster.

    Raises:
        SclsearchError: This machine has no room for one seed run.
    """
    here = fitting(cpus, gpus)
    if not here and not joined:
        raise _no_room(ray.cluster_resources(), cpus, gpus)
    return given or min(max(here, CLUSTER_SLOTS if joined else 1), MOST_AT_A_TIME)


def cores() -> int:
    """Return the number of CPU cores that this process may use.

    Ray knows a container's CPU limit, but ignores CPU affinity.
    """
    known = int(get_num_cpus(override_docker_cpu_warning=True))
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else known
    return max(min(known, able), 1)


def _fitting_on(resources: Mapping[str, float], cpus: int, gpus: float) -> int:
    by_cpu = int(resources.get("CPU", 0) // cpus)
    return min(by_cpu, int(resources.get("GPU", 0) / gpus + 1e-9)) if gpus else by_cpu
