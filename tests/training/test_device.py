"""Device and precision of a seed run, and the errors that the machine causes."""

import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.training.device import backend_for, is_of_machine, is_out_of_memory
from sclsearch.training.spec import Numerics

ASSERT_FAILED = 'INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":838'


def raised_from(cause: Exception) -> Exception:
    error = SclsearchError("--model m: cannot be read")
    error.__cause__ = cause
    return error


def test_a_failed_allocation_on_the_cpu_is_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    ("error", "no_memory", "machine"),
    [
        (torch.OutOfMemoryError("Tried to allocate 2 GiB"), True, False),
        (torch.AcceleratorError("CUDA error: out of memory", 2), True, True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True, True),
        (RuntimeError(f"!handles_.at(i) {ASSERT_FAILED}"), False, True),
        (RuntimeError("Unexpected error from cudaGetDeviceCount(). Did you"), False, True),
        (raised_from(OSError(116, "Stale file handle")), False, True),
        (SclsearchError("pooling: out of memory of poolers"), False, False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False, False),
    ],
    ids=str,
)
def test_machine_errors_are_distinguished_from_errors_of_the_seed_run(
    error: Exception, no_memory: bool, machine: bool
) -> None:
    assert is_out_of_memory(error) == no_memory
    assert is_of_machine(error) == machine


def test_the_cpu_computes_in_the_given_precision() -> None:
    precisions: dict[Numerics, torch.dtype] = {
        "cpu-fp32": torch.float32,
        "cpu-bf16": torch.bfloat16,
    }
    for numerics, dtype in precisions.items():
        with backend_for(numerics).autocast():
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


@pytest.mark.parametrize("numerics", ["cuda-fp32", "cuda-tf32", "cuda-bf16"])
def test_a_gpu_must_be_there_is_deterministic_and_uses_tf32_only_if_asked(
    monkeypatch: pytest.MonkeyPatch, numerics: Numerics
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SclsearchError, match=rf"^{numerics}: torch finds no GPU\."):
        backend_for(numerics)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, numerics == "cuda-fp32"
    try:
        backend, allowed = backend_for(numerics), matmul.allow_tf32
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(mode=False)
        matmul.allow_tf32 = before
    assert backend.device == torch.device("cuda")
    assert backend.bf16 == (numerics == "cuda-bf16")
    assert allowed == (numerics == "cuda-tf32")
