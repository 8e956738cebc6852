"""Detection of machine errors, after which a seed run may succeed elsewhere or later."""

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
    """Return whether an error reports that GPU memory or main memory is exhausted."""
    # The CPU allocator and cuBLAS raise plain RuntimeErrors.
    said = isinstance(error, RuntimeError) and any(sign in str(error) for sign in NO_MEMORY)
    return said or isinstance(error, torch.OutOfMemoryError | MemoryError)


def is_of_machine(error: BaseException) -> bool:
    """Return whether a file system or a GPU caused an error, and not the computation.

    A failed assertion on the GPU can come from either. It makes the process unusable, so it counts
    as a machine error. Its message limits it to one retry.
    """
    if isinstance(error, RuntimeError):
        return any(sign in str(error) for sign in BROKEN)
    return isinstance(error.__cause__ or error, OSError)
