"""What objectives of cosines share: unit vectors and their products."""

import torch
from torch import Tensor


def unit(z: Tensor) -> Tensor:
    """Returns the vectors of the last axis over their lengths, float32 or float64.

    A vector of zeros stays one: divided by a small epsilon its gradient overflows float16.
    """
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    norm: Tensor = z.norm(dim=-1, keepdim=True)
    return z / norm.masked_fill(norm == 0, 1.0)


def dots(a: Tensor, b: Tensor) -> Tensor:
    """Returns the product of each row of `a`, `[..., N, d]`, with each of `b`, `[..., M, d]`."""
    if not torch.is_autocast_enabled(a.device.type):
        return a @ b.mT
    with torch.autocast(a.device.type, enabled=False):  # a product in bfloat16 is too coarse
        return a @ b.mT
