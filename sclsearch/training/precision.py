"""Where and how precisely a seed run is computed."""

import torch

from sclsearch.training.job import Numerics


def numerics_here(gpus: float) -> Numerics:
    """Returns the numerics of a trial that has some GPUs or none."""
    return "cuda-bf16" if gpus > 0 else "cpu-fp32"


def device_for(numerics: Numerics) -> torch.device:
    """Returns the device of some numerics."""
    return torch.device("cuda" if numerics == "cuda-bf16" else "cpu")


def autocast(device: torch.device) -> torch.autocast:
    """Returns bfloat16 autocast on CUDA, where it pays; on CPUs it was 14 times slower."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")
