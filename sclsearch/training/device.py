"""Device and numeric precision of a seed run, and detection of errors that the machine caused."""

import os

import torch

from sclsearch.errors import SclsearchError
from sclsearch.training.spec import Numerics

NO_MEMORY = ("out of memory", "can't allocate memory", "_STATUS_ALLOC_FAILED")
BROKEN = (
    "CUDA error",
    "CUBLAS_STATUS_",
    "cuDNN error",
    "CUDNN_STATUS_",
    "CUDACachingAllocator",
    "cudaGetDeviceCount",
)


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
        raise SclsearchError(f"{numerics}: torch finds no GPU. Use a machine with a GPU.")
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


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports that GPU memory or main memory is exhausted."""
    # The CPU allocator and cuBLAS raise plain RuntimeErrors.
    by_message = isinstance(error, RuntimeError) and any(sign in str(error) for sign in NO_MEMORY)
    return by_message or isinstance(error, torch.OutOfMemoryError | MemoryError)


def is_of_machine(error: BaseException) -> bool:
    """Return whether a file system or a GPU caused an error, and not the computation.

    A failed assertion on the GPU can come from either. It makes the process unusable, so it counts
    as a machine error. Its message limits it to one retry.
    """
    if isinstance(error, RuntimeError):
        return any(sign in str(error) for sign in BROKEN)
    return isinstance(error.__cause__ or error, OSError)
