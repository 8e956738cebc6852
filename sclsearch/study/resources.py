"""What a search may ask of machines: where Ray is, and how much of a GPU a seed run gets."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from sclsearch.training.spec import Numerics

CLUSTER = "http://127.0.0.1:8265"
"""Where a tunnel to a cluster's dashboard ends, if nothing else is said."""
DRIVER = Path("/proc/driver/nvidia/version")
"""File in which the kernel states the version of NVIDIA's driver."""
CLUSTER_SLOTS = 64
"""Seed runs that a cluster is taken to run at a time; --concurrency says it better."""

_ADDRESS = re.compile(r"auto|[^/]+:\d+")
_STEPS = 10_000  # Ray counts resources in ten-thousandths
_ROUNDING = 0.005  # 0.333 and 0.143 are meant as a third and a seventh


def check_address(address: str | None) -> None:
    """Raises SclsearchError unless a search can be run from that address of a Ray cluster."""
    if address is None or _ADDRESS.fullmatch(address):
        return
    found = "it is not"
    if address.startswith("ray://"):
        found = (
            "it is Ray Client's: the search would die with this machine's connection, and its "
            "storage would be a folder of another machine"
        )
    raise SclsearchError(
        f"--address {address}: it must be auto or HOST:PORT, from a machine of the cluster, but "
        f"{found}. From elsewhere: sclsearch submit --cluster http://HOST:8265 -- tune …"
    )


def gpu_share(asked: float) -> float:
    """Return the GPUs of a seed run as Ray counts them: none, one, or one k-th of one.

    Ray packs seed runs into a GPU before it takes the next: with any other share some of every
    GPU would stay idle.

    Raises:
        SclsearchError: It is another share; names the two nearest.
    """
    if not 0 <= asked <= 1:
        raise SclsearchError(
            f"--gpus-per-trial: must be 0, 1/k or 1, since a seed run uses one GPU at most, "
            f"got {asked:g}."
        )
    if asked == int(asked):
        return float(asked)
    k = round(1 / asked)
    if abs(asked * k - 1) < _ROUNDING:
        # Rounded up, as 0.1429 is, k of them would not fit into one GPU.
        return max(_STEPS // k, 1) / _STEPS
    nearest = 1 / math.ceil(1 / asked), 1 / math.floor(1 / asked)
    raise SclsearchError(
        f"--gpus-per-trial: must be 1/k, so that seed runs fill every GPU, got {asked:g}. "
        f"Give {nearest[0]:.4g} or {nearest[1]:.4g}."
    )


def gpus_each(asked: float | None, numerics: "Numerics") -> float:
    """Returns the GPUs of a seed run as `gpu_share` has them; without a wish one or, on CPUs, 0."""
    return gpu_share(float(numerics != "cpu-fp32") if asked is None else asked)


def unusable_gpu(driver: Path = DRIVER) -> str:
    """Return a warning if this machine has an NVIDIA driver that torch cannot use; else nothing.

    Args:
        driver: File in which the driver states its version.
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


def first_sentence(text: str | None) -> str:
    """Returns what Ray says of a failure, without the advice that follows and fits seldom."""
    return re.split(r"\.\s|\n", (text or "no reason given").strip())[0].rstrip(".")


def token_refused(where: str, error: Exception) -> SclsearchError:
    """Returns the error for a cluster that does not let this machine in."""
    return SclsearchError(
        f"{where}: the cluster must know this machine's token, but: {first_sentence(str(error))}. "
        "Put the cluster's token into ~/.ray/auth_token, which nobody else may read, or name its "
        "file by RAY_AUTH_TOKEN_PATH."
    )
