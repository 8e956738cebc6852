"""Device and precision of a seed run, and errors that the machine caused."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache

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


@dataclass(frozen=True, slots=True)
class Backend:
    """Device of a model, and precision of its matrix products and attention.

    Weights, the optimizer and losses are always in float32.
    """

    device: torch.device
    bf16: bool = False

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)

    def stream(self) -> AbstractContextManager[object]:
        """Return the context of a seed run: on a GPU, a stream that CUDA graphs can record."""
        if self.device.type != "cuda":
            return nullcontext()
        return torch.cuda.stream(_stream())


@cache
def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def backend_for(numerics: Numerics) -> Backend:
    """Return the backend of a seed run; for CUDA, enable deterministic kernels.

    A custom method that uses an operation without a deterministic kernel gets torch's error.
    """
    kind, _, precision = numerics.partition("-")
    bf16 = precision == "bf16"
    if kind == "cpu":
        # oneDNN reads this at its first use in a process. By default it caches kernels for 1024
        # shapes, but few batches share a shape. The small cached blocks fragment the memory, so
        # gigabytes of freed memory stay unused. An update needs two kernels.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        return Backend(torch.device("cpu"), bf16)
    if not torch.cuda.is_available():
        raise SclsearchError(f"{numerics}: torch finds no GPU. Use a machine with a GPU.")
    # cuBLAS reads this at its first use in a process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # With warn_only, the backward pass of fused attention would stay nondeterministic.
    torch.use_deterministic_algorithms(True)
    # Filling would launch one more kernel per tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return Backend(torch.device("cuda"), bf16)


def backend_here(*, gpu: bool = True, bf16: bool = False) -> Backend:
    """Return the GPU if wanted and there, else the CPU; with bfloat16 if wanted and fast there."""
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    return Backend(device, bf16 and fast_bf16(device))


def fast_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for bfloat16, without which it is slow.

    These are GPUs of compute capability 8.0 or higher, and CPUs with AVX512-BF16 or AMX.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


@contextmanager
def used_threads(count: int) -> Iterator[None]:
    """Compute on a number of threads, on which results depend, during the body."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
