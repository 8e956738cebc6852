"""Start of Ray here or on a cluster, this machine's resources, and folders of killed searches."""

import gc
import json
import logging
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryDirectory, gettempdir
from types import ModuleType
from typing import Any

import joblib
import ray
from ray._private import ray_constants, services
from ray._private import utils as ray_utils
from ray.exceptions import RayError

from sclsearch.errors import SclsearchError, first_sentence, suggestion
from sclsearch.methods import NamedMethod
from sclsearch.methods.custom import own_modules
from sclsearch.ray_backend.signals import restored_signal_handlers

PREFIX = "sclsearch-ray-"
OWNER = "owner"


@contextmanager
def scratch_folder(session: Path | None) -> Iterator[Path]:
    """Yield a folder for Ray Tune, with a file that this process locks while it lives.

    `session` is the folder of a Ray that belongs to this process; None on a cluster.
    """
    with (
        TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name,
        Path(name, OWNER).open("w", encoding="utf-8") as owner,
    ):
        flock(owner, LOCK_EX)
        owner.write(str(session or ""))
        owner.flush()
        yield Path(name)


def delete_dead_sessions() -> None:
    """Delete the folders of killed searches on this machine; Linux ends their Ray processes."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        try:
            if not _is_own(folder):
                continue
            with (folder / OWNER).open(encoding="utf-8") as owner:
                flock(owner, LOCK_EX | LOCK_NB)  # fails while the search lives
                session = Path(owner.read())
            if session.match("ray/session_*") and _is_own(session):
                shutil.rmtree(session, ignore_errors=True)
                os.utime(folder)
            # A Ray process that still ends may create the session again: the record stays.
            elif time.time() - folder.stat().st_mtime > _END_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, ValueError):
            continue


def _is_own(folder: Path) -> bool:
    """Return whether a path is a folder of this user, and not a link to one."""
    with suppress(FileNotFoundError):
        found = folder.lstat()
        return S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False


ENVIRONMENT = {
    # Tune prints its own table even at verbosity 0 unless it uses its old output.
    "RAY_AIR_NEW_OUTPUT": "0",
    # Each trial would write CSV, JSON and TensorBoard files that nobody reads.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # By default Ray shows all GPUs to trials that request none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
}
ACCELERATOR = "accelerator_type:"
"""Prefix of the resource by which a Ray node has a type of accelerator, such as L4."""
MOST_AT_A_TIME = 1000
"""Upper limit of trials at a time: Ray holds a placement group for each, tested to about 1000."""

DRIVER = Path("/proc/driver/nvidia/version")
"""File in which the kernel reports the version of the NVIDIA driver."""
CLUSTER_SLOTS = 64
"""Seed runs at a time that a cluster is assumed to run; --concurrency overrides it."""
START_MPS = "nvidia-cuda-mps-control -d"
"""Command that starts CUDA MPS."""

_ANSWER_SECONDS = 5.0
_MPS_SECONDS = 1.0
_END_SECONDS = 60.0


@contextmanager
def started_ray(address: str | None) -> Iterator[Path]:
    """Start Ray on this machine, or join a cluster; yield a folder for Ray Tune.

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
        # Ray prints the deaths of its processes to standard output, where `--json` writes JSON.
        with redirect_stdout(sys.stderr):
            # Ray's own handlers of SIGTERM end this process without a message.
            again = partial(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
            unhandled = _replaced(ray_utils, "set_sigterm_handler", lambda _: again())
            with restored_signal_handlers(), unhandled:
                if address is not None:
                    _join(address, quiet)
                session = _start(quiet) if address is None else None
            with scratch_folder(session) as folder:
                yield folder
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


def _start(quiet: Mapping[str, Any]) -> Path:
    """Start Ray for this process alone; return its session folder.

    Ray binds to loopback, where other machines cannot reach it, only if clusters are disabled, as
    they are by default on a Mac. Even with 127.0.0.1 it would otherwise listen on every interface.
    """
    # `timeout` sends SIGTERM to the whole process group, and without Ray a search cannot end
    # gracefully. On Linux the processes of other groups end with the search, too.
    apart = {"process_group": 0} if sys.platform == "linux" else {}
    try:
        delete_dead_sessions()
        with (
            _replaced(ray_constants, "ENABLE_RAY_CLUSTER", False),
            _replaced(services, "ConsolePopen", partial(services.ConsolePopen, **apart)),
        ):
            context = ray.init(address="local", num_cpus=cores(), include_dashboard=False, **quiet)
        if (token := Path.home() / ".ray" / "auth_token").exists():
            token.chmod(0o600)  # Ray leaves it readable by every user of the machine
        session = Path(context.address_info["session_dir"])
        session.chmod(0o700)  # Ray lets every user write to it
    except Exception as error:
        raise SclsearchError(
            f"Ray: its processes did not start on this machine: {first_sentence(str(error))}. Set "
            "HOME or RAY_TMPDIR if it names their folder. On a busy machine, wait. Otherwise read "
            "Ray's logs in /tmp/ray/session_latest/logs."
        ) from error
    return session


@contextmanager
def _replaced(module: ModuleType, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _join(address: str, quiet: Mapping[str, Any]) -> None:
    host, _, port = address.rpartition(":")
    try:
        # Ray itself waits minutes for an answer, and tries 20 times for 40 s to get a valid one.
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
        if host and port.isdecimal():
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        raise SclsearchError(
            f"--address {address}: no Ray cluster answers, or it rejects this machine's token or "
            f"certificate: {first_sentence(str(error))}. Start one, or give HOST:PORT of its head; "
            "put its token into ~/.ray/auth_token, or set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN_PATH; with TLS, set the variables of cluster/env.sh."
        ) from error


def send_own_code(method: NamedMethod) -> None:
    """Serialize a user's own method by value, since workers do not have its file."""
    if method.digest:
        for module in own_modules(method.kind):
            ray.cloudpickle.register_pickle_by_value(module)


def present_nodes(accelerator: str | None = None) -> list[Mapping[str, Any]]:
    """Return the nodes that run; with a type of accelerator, those that have it."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    return [
        one for one in alive if not accelerator or ACCELERATOR + accelerator in one["Resources"]
    ]


def check_alive() -> None:
    """Raise SclsearchError if Ray has no node left, as after a kill of its processes here."""
    if not present_nodes():
        raise SclsearchError(
            "Ray: its processes were killed. Run the same command again to resume; finished seed "
            "runs are stored."
        )


def check_accelerator(accelerator: str) -> None:
    """Raise SclsearchError if the cluster has no node with this type of accelerator.

    Nodes that Ray's launcher can start count, too: on the head, it has a file of their types.
    """
    resources = [node["Resources"] for node in present_nodes()]
    with suppress(OSError, ValueError):
        launcher = json.loads(Path("~/ray_bootstrap_config.yaml").expanduser().read_bytes())
        resources += [one["resources"] for one in launcher["available_node_types"].values()]
    names = {name for one in resources for name in one if name.startswith(ACCELERATOR)}
    if ACCELERATOR + accelerator not in names:
        hint = suggestion(accelerator, [name.removeprefix(ACCELERATOR) for name in names])
        raise SclsearchError(f"--accelerator {accelerator}: no node has this accelerator.{hint}")


def fitting(cpus: int, gpus: float, accelerator: str | None = None) -> int:
    """Return the number of seed runs that fit on the present nodes at the same time."""
    nodes = present_nodes(accelerator)
    return sum(_fitting_on(node["Resources"], cpus, gpus) for node in nodes)


def training_nodes(cpus: int, gpus: float, accelerator: str | None = None) -> set[str]:
    """Return the addresses of the present nodes that have room for a seed run."""
    nodes = present_nodes(accelerator)
    return {one["NodeManagerAddress"] for one in nodes if _fitting_on(one["Resources"], cpus, gpus)}


def fitting_here(cpus: int, gpus: float) -> int:
    """Return the number of seed runs that a local Ray can run at a time, before it starts."""
    return _fitting_on(_here(gpus), cpus, gpus)


def check_room_here(cpus: int, gpus: float, there: Mapping[str, float] | None = None) -> None:
    """Raise SclsearchError if this machine, or its Ray, has no room for one seed run.

    `there` are the resources of a Ray that runs; before it starts, those of the machine count.
    """
    there = _here(gpus) if there is None else there
    if not _fitting_on(there, cpus, gpus):
        raise SclsearchError(
            f"--cpus-per-trial {cpus}, --gpus-per-trial {gpus:g}: a seed run does not fit into "
            f"this machine, which has {there.get('CPU', 0):g} cores and {there.get('GPU', 0):g} "
            "GPUs. Give smaller numbers."
        )


def _here(gpus: float) -> dict[str, float]:
    import torch

    return {"CPU": cores(), "GPU": torch.cuda.device_count() if gpus else 0}


def at_a_time(
    given: int | None, cpus: int, gpus: float, accelerator: str | None, *, joined: bool
) -> int:
    """Return the number of seed runs to request from Ray at a time.

    A cluster may grow with the requests, so its default is at least `CLUSTER_SLOTS`.
    """
    if not joined:
        check_room_here(cpus, gpus, ray.cluster_resources())
    here = fitting(cpus, gpus, accelerator)
    return given or min(max(here, CLUSTER_SLOTS if joined else 1), MOST_AT_A_TIME)


def cores() -> int:
    """Return the number of CPU cores that this process may use, by affinity and container."""
    return int(joblib.cpu_count())


def _fitting_on(resources: Mapping[str, float], cpus: int, gpus: float) -> int:
    by_cpu = int(resources.get("CPU", 0) // cpus)
    return min(by_cpu, int(resources.get("GPU", 0) / gpus + 1e-9)) if gpus else by_cpu


def nvidia_driver(driver: Path = DRIVER) -> str | None:
    """Return the version of this machine's NVIDIA driver; None if there is no driver."""
    with suppress(OSError):
        found = re.search(r"Kernel Module.*?\s([\d.]+)\s", driver.read_text(encoding="utf-8"))
        return found[1] if found else "of unknown version"
    return None


def unusable_gpu(driver: Path = DRIVER) -> str:
    """Return a warning if torch cannot use this machine's NVIDIA driver, else an empty string.

    `driver` is the file in which the kernel reports the driver's version.
    """
    import torch

    if torch.cuda.is_available() or (version := nvidia_driver(driver)) is None:
        return ""
    cuda = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    return (
        f"This machine has NVIDIA driver {version}, but torch {torch.__version__}, built {cuda}, "
        "cannot use it: seed runs train on the CPU. Update the driver, or install a torch that is "
        "built for an older CUDA."
    )


def mps_is_running() -> bool | None:
    """Return whether CUDA MPS runs, so that kernels of several processes run at the same time.

    The result is None if this machine cannot use MPS, which needs Linux and an NVIDIA GPU, or if
    the daemon's socket cannot be read.
    """
    import torch

    if sys.platform != "linux" or torch.version.cuda is None or not torch.cuda.is_available():
        return None
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")
    # The socket's file stays when the daemon ends; only a connection shows that the daemon runs.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(_MPS_SECONDS)
        try:
            client.connect(str(folder / "control"))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return None
    return True


def mps_advice(gpus: float, at_once: int) -> list[str]:
    """Return advice to start CUDA MPS if seed runs share a GPU of this machine without it.

    `gpus` are those of a seed run; `at_once` seed runs run at the same time on this machine.
    """
    if not 0 < gpus < 1 or at_once < 2 or mps_is_running() is not False:
        return []
    return [
        "GPU: CUDA MPS does not run, so seed runs that share a GPU take turns. Start MPS before "
        f"the search: {START_MPS}"
    ]
