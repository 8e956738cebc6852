"""Errors of training that tell of the machine: the same seed run may train elsewhere or later."""

import torch

NO_MEMORY = ("out of memory", "can't allocate memory", "_STATUS_ALLOC_FAILED")
BROKEN = (
    "CUDA error",
    "CUBLAS_STATUS_",
    "cuDNN error",
    "CUDNN_STATUS_",
    "CUDACachingAllocator",
    "cudaGetDeviceCount",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error says that the memory of a GPU or of the machine is used up."""
    # The CPU's allocator and cuBLAS raise no type of their own.
    said = isinstance(error, RuntimeError) and any(sign in str(error) for sign in NO_MEMORY)
    return said or isinstance(error, torch.OutOfMemoryError | MemoryError)


def is_of_machine(error: BaseException) -> bool:
    """Returns whether an error comes from a file system or a GPU and not from what is computed.

    A failed assertion on the GPU may be either's. The process can do nothing more, so it counts as
    the machine's; by its message it is tried again once only.
    """
    if isinstance(error, RuntimeError):
        return any(sign in str(error) for sign in BROKEN)
    return isinstance(error.__cause__ or error, OSError)
