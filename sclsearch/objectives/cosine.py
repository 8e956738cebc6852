"""L2 normalization, cosines and similarity matrices, shared by the contrastive losses."""

import torch
from torch import Tensor


def normalize(z: Tensor, length: float = 1.0) -> Tensor:
    """Return the vectors of the last axis L2-normalized to a length, float32 or float64.

    A zero vector stays zero. With a small epsilon as divisor its gradient would overflow float16.
    """
    z = _wide(z)
    return z * (length / _lengths(z))


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine of each pair of vectors at the same position in `a` and `b`, `[...]`."""
    a, b = _wide(a), _wide(b)
    lengths = _lengths(a) * _lengths(b)
    return (a * b).sum(-1) / lengths.squeeze(-1)


def similarities(a: Tensor, b: Tensor) -> Tensor:
    """Return the dot products of all rows of `a`, `[..., N, d]`, and of `b`, `[..., M, d]`."""
    if not torch.is_autocast_enabled(a.device.type):
        return a @ b.mT
    with torch.autocast(a.device.type, enabled=False):  # bfloat16 is too imprecise here
        return a @ b.mT


def _wide(z: Tensor) -> Tensor:
    return z.to(torch.promote_types(z.dtype, torch.float32))


def _lengths(z: Tensor) -> Tensor:
    """Return the lengths of the vectors, `[..., 1]`; 1 for zero vectors, to avoid division by 0."""
    norm: Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return norm + (norm == 0)
