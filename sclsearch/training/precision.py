"""Where and how precisely a seed run is computed."""

import os

import torch

from sclsearch.errors import SclsearchError
from sclsearch.training.spec import Numerics


def device_for(numerics: Numerics) -> torch.device:
    """Returns the device of some numerics; on CUDA only deterministic kernels are taken there.

    An operation that has none there, in a method of one's own, raises torch's error.

    Raises:
        SclsearchError: The numerics are CUDA's, but no GPU is seen.
    """
    if numerics == "cpu-fp32":
        # Read at its first use in a process. oneDNN keeps what it compiles for 1024 shapes:
        # hardly two batches have the same one, and between those small blocks freed memory lies
        # idle, gigabytes of it. An update needs two of them.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SclsearchError(f"{numerics}: a GPU must be there, but torch sees none.")
    # Read when cuBLAS is first used in a process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # To warn alone would leave the backward of fused attention as it is.
    torch.use_deterministic_algorithms(True)
    # It costs a kernel a tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return torch.device("cuda")


def autocast(device: torch.device) -> torch.autocast:
    """Returns bfloat16 autocast on CUDA, where it pays; on CPUs it was 14 times slower."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")
