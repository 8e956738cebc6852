"""Large batches in small memory (GradCache: Gao et al., 2021, https://arxiv.org/abs/2101.06983).

A contrast needs the states of all rows at once, but not what led to them. So the rows go forward in
chunks of which the last states alone are kept; once their gradients are known, each chunk goes
forward again, by the same dropout, and backward. All gradients are those of the whole batch, which
those of smaller batches, added up, are not.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

LIMIT = 2**15
"""Positions, views times texts times tokens, that go through an encoder in one piece at most.

BERT base keeps 0.8 MB for each in float32. Chunks draw another noise than the whole batch, so the
limit is no matter of the machine; another limit, or another `CHUNK`, is another engine.
"""
CHUNK = 2**13
"""Positions of a chunk at most, as far as whole texts allow it."""

Forward = Callable[[Tensor, Tensor, Tensor, tuple[float, ...]], Tensor]


def is_large(ids: Tensor, rates: tuple[float, ...]) -> bool:
    """Returns whether a batch, `[B, T]`, seen once at each rate, is for `in_chunks`."""
    return ids.numel() * len(rates) > LIMIT


def in_chunks(
    forward: Forward, ids: Tensor, mask: Tensor, types: Tensor, rates: tuple[float, ...]
) -> Tensor:
    """Returns the states of all views, `[V * B, T, d]`, without what leads to them.

    Args:
        forward: Returns the states of some texts, in the order of its arguments those below. It is
            called again when gradients come: whatever it reads besides, as the rates of dropout
            modules are, it must set itself, since only the state of the noise is restored.
        ids: Token ids, `[B, T]`.
        mask: True at tokens, `[B, T]`.
        types: Segments, `[B, T]`.
        rates: Dropout rate of each of the V views.
    """
    chunks = min(-(-ids.numel() * len(rates) // CHUNK), len(ids))
    texts = zip(*(tensor.tensor_split(chunks) for tensor in (ids, mask, types)), strict=True)
    states = [checkpoint(forward, *some, rates, use_reentrant=False) for some in texts]
    by_view = [chunk.unflatten(0, (len(rates), -1)) for chunk in states]  # [V, b, T, d]
    return torch.cat(by_view, dim=1).flatten(0, 1)
