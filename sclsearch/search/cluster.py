"""Ray on this machine, or a cluster that is there."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray._private import ray_constants

from sclsearch.methods import NamedMethod

ENVIRONMENT = {
    # Tune prints a table of its own even at verbosity 0 unless its old output is chosen.
    "RAY_AIR_NEW_OUTPUT": "0",
    # Each trial would write CSV, JSON and TensorBoard files that nobody reads.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # Ray hides the GPUs from trials that ask for none; without this it warns that it will.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def started_ray(address: str | None) -> Iterator[None]:
    """Starts Ray on this machine, or joins a cluster, while the body runs.

    Without an address a Ray of our own is started even where another runs on the machine.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Tune prints the traceback of every trial that fails; the seed run's record has the cause.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if address is None:
        with _loopback():
            ray.init(address="local", include_dashboard=False, **quiet)
    else:
        ray.init(address=address, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _loopback() -> Iterator[None]:
    """Lets Ray start on 127.0.0.1.

    Asked for that address, Ray takes the machine's own and listens on every interface. It keeps
    to the loopback where it cannot be a cluster, as on a Mac.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def send_own_code(method: NamedMethod) -> None:
    """Lets a user's own method travel to the workers, which do not have its file."""
    if method.digest:
        ray.cloudpickle.register_pickle_by_value(sys.modules[method.kind.__module__])


def fitting(cpus: int, gpus: float) -> int:
    """Returns how many trials fit into Ray's resources at a time, at least 1."""
    resources = ray.cluster_resources()
    by_cpu = int(resources.get("CPU", 1) // cpus) if cpus else None
    by_gpu = int(resources.get("GPU", 0) / gpus + 1e-9) if gpus else None
    return max(1, min(limit for limit in (by_cpu, by_gpu) if limit is not None))
