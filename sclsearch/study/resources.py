"""Compute resources of a search: the Ray cluster's address, GPUs per seed run and CUDA MPS."""

import math
import os
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from sclsearch.training.spec import Numerics

DRIVER = Path("/proc/driver/nvidia/version")
"""File in which the kernel reports the version of the NVIDIA driver."""
CLUSTER_SLOTS = 64
"""Seed runs at a time that a cluster is assumed to run; --concurrency overrides it."""
START_MPS = "nvidia-cuda-mps-control -d"
"""Command that starts CUDA MPS."""

_ADDRESS = re.compile(r"auto|[^/]+:\d+")
_STEPS = 10_000  # Ray counts resources in ten-thousandths
_ROUNDING = 0.005  # 0.333 and 0.143 are meant as a third and a seventh
_MPS_SECONDS = 1.0


def check_address(address: str | None) -> None:
    """Raise SclsearchError unless a search can connect to this Ray cluster address."""
    if address is None or _ADDRESS.fullmatch(address):
        return
    reason = (
        "Ray Client is not supported, since the search would end with this connection"
        if address.startswith("ray://")
        else "must be auto or HOST:PORT"
    )
    raise SclsearchError(
        f"--address {address}: {reason}. Run the command on a machine of the cluster with auto or "
        "HOST:PORT, or from elsewhere as a job: `ray job submit --address http://HOST:8265 "
        "-- sclsearch tune … --address auto`."
    )


def gpu_share(share: float) -> float:
    """Return the GPUs per seed run as Ray counts them: 0, 1 or 1/k.

    Ray fills one GPU with seed runs before it uses the next. Any other share would leave a part of
    every GPU idle.

    Raises:
        SclsearchError: The share is another one; the error names the two nearest valid shares.
    """
    if not 0 <= share <= 1:
        raise SclsearchError(
            f"--gpus-per-trial: must be 0, 1/k or 1, since a seed run uses one GPU at most, "
            f"got {share:g}."
        )
    if share == int(share):
        return float(share)
    k = round(1 / share)
    if abs(share * k - 1) < _ROUNDING:
        # If the share is rounded up, as 0.1429 is, k seed runs do not fit into one GPU.
        return max(_STEPS // k, 1) / _STEPS
    nearest = 1 / math.ceil(1 / share), 1 / math.floor(1 / share)
    raise SclsearchError(
        f"--gpus-per-trial: must be 1/k, so that seed runs fill every GPU, got {share:g}. "
        f"Give {nearest[0]:.4g} or {nearest[1]:.4g}."
    )


def gpus_each(share: float | None, numerics: "Numerics") -> float:
    """Return the GPUs per seed run, checked by `gpu_share`; default: 1, or 0 for CPU training."""
    return gpu_share(float(numerics.startswith("cuda")) if share is None else share)


def unusable_gpu(driver: Path = DRIVER) -> str:
    """Return a warning if torch cannot use this machine's NVIDIA driver, else an empty string.

    `driver` is the file in which the kernel reports the driver's version.
    """
    import torch

    if torch.cuda.is_available():
        return ""
    try:
        found = re.search(r"Kernel Module\D*([\d.]+)", driver.read_text(encoding="utf-8"))
    except OSError:
        return ""
    version = found[1] if found else "of unknown version"
    cuda = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    return (
        f"This machine has NVIDIA driver {version}, but torch {torch.__version__}, built {cuda}, "
        "cannot use it: seed runs train on the CPU. Update the driver, or install a torch that is "
        "built for an older CUDA."
    )


def mps_runs() -> bool | None:
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
    if not 0 < gpus < 1 or at_once < 2 or mps_runs() is not False:
        return []
    return [
        "GPU: CUDA MPS does not run, so seed runs that share a GPU take turns. Start MPS before "
        f"the search: {START_MPS}"
    ]


def first_sentence(text: str | None) -> str:
    """Return the first sentence of Ray's error message.

    Ray's advice after it seldom applies.
    """
    return re.split(r"\.\s|\n", (text or "no reason given").strip())[0].rstrip(".")
