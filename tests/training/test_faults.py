"""What of an error is the machine's: it is told by the errors that are really raised."""

import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.training.device import is_of_machine, is_out_of_memory

ASSERT_FAILED = 'INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":838'


def raised_from(cause: Exception) -> Exception:
    error = SclsearchError("--model m: it must be an encoder, but it cannot be read")
    error.__cause__ = cause
    return error


def test_the_cpus_allocator_says_that_there_is_no_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    ("error", "no_memory", "machine"),
    [
        (torch.OutOfMemoryError("Tried to allocate 2 GiB"), True, False),
        (MemoryError(), True, False),
        (torch.AcceleratorError("CUDA error: out of memory", 2), True, True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True, True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling"), False, True),
        (torch.AcceleratorError("CUDA error: an illegal memory access", 700), False, True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), False, True),
        (RuntimeError(f"!handles_.at(i) {ASSERT_FAILED}"), False, True),
        (RuntimeError("Unexpected error from cudaGetDeviceCount(). Did you"), False, True),
        (OSError(116, "Stale file handle"), False, True),
        (raised_from(OSError(116, "Stale file handle")), False, True),
        (SclsearchError("pooling: out of memory of poolers"), False, False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False, False),
        (KeyError("head"), False, False),
    ],
    ids=str,
)
def test_an_error_is_the_machines_or_the_seed_runs(
    error: Exception, no_memory: bool, machine: bool
) -> None:
    assert is_out_of_memory(error) == no_memory
    assert is_of_machine(error) == machine
