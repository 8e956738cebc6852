"""Device and numeric precision of a seed run."""

import os

import torch

from sclsearch.errors import SclsearchError
from sclsearch.training.spec import Numerics


def device_for(numerics: Numerics) -> torch.device:
    """Return the device of `numerics`; for CUDA, enable deterministic kernels.

    A custom method that uses an operation without a deterministic kernel gets torch's error.

    Raises:
        SclsearchError: The numerics need CUDA, but torch finds no GPU.
    """
    if numerics == "cpu-fp32":
        # oneDNN reads this at its first use in a process. By default it caches kernels for 1024
        # shapes, but few batches share a shape. The small cached blocks fragment the memory, so
        # gigabytes of freed memory stay unused. An update needs two kernels.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SclsearchError(f"{numerics}: a GPU must be there, but torch sees none.")
    # cuBLAS reads this at its first use in a process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # With warn_only, the backward pass of fused attention would stay nondeterministic.
    torch.use_deterministic_algorithms(True)
    # Filling would launch one more kernel per tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return torch.device("cuda")


def autocast(device: torch.device) -> torch.autocast:
    """Return bfloat16 autocast, enabled on CUDA only: on CPUs it was 14 times slower."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")
