"""What objectives of cosines share: unit vectors and their products."""

import torch
from torch import Tensor


def normalize(z: Tensor, length: float = 1.0) -> Tensor:
    """Returns the vectors of the last axis with one length, float32 or float64.

    A vector of zeros stays one: divided by a small epsilon its gradient overflows float16.
    """
    z = _wide(z)
    return z * (length / _lengths(z))


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """Returns the cosine of each vector of `a` with that of `b` in its place, `[...]`."""
    a, b = _wide(a), _wide(b)
    lengths = _lengths(a) * _lengths(b)
    return (a * b).sum(-1) / lengths.squeeze(-1)


def similarities(a: Tensor, b: Tensor) -> Tensor:
    """Returns the product of each row of `a`, `[..., N, d]`, with each of `b`, `[..., M, d]`."""
    if not torch.is_autocast_enabled(a.device.type):
        return a @ b.mT
    with torch.autocast(a.device.type, enabled=False):  # a product in bfloat16 is too coarse
        return a @ b.mT


def _wide(z: Tensor) -> Tensor:
    return z.to(torch.promote_types(z.dtype, torch.float32))


def _lengths(z: Tensor) -> Tensor:
    """Returns the lengths of the vectors, `[..., 1]`; 1 for zeros, which nothing is divided by."""
    norm: Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return norm + (norm == 0)
