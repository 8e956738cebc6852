"""Where and how precisely a seed run is computed."""

import os
from collections.abc import Set

import torch
from torch import Tensor, nn

from sclsearch.errors import SclsearchError
from sclsearch.training.job import Numerics


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


def linear_biases(model: nn.Module) -> frozenset[str]:
    """Returns the names of the biases of a model's linear layers."""
    layers = model.named_modules()
    return frozenset(f"{name}.bias" for name, layer in layers if isinstance(layer, nn.Linear))


def autocast_named(
    weights: dict[str, Tensor], names: Set[str], device: torch.device
) -> dict[str, Tensor]:
    """Returns weights of which those named have the type of autocast, where that is on.

    `vmap` makes a product and a sum of a linear layer. Autocast knows the product alone: a bias in
    float32 would make all that the layer returns float32.
    """
    if not torch.is_autocast_enabled(device.type):
        return weights
    dtype = torch.get_autocast_dtype(device.type)
    return {name: w.to(dtype) if name in names else w for name, w in weights.items()}
