"""Gradient caching: large contrastive batches, encoded in chunks to save memory.

GradCache: Gao et al., 2021, https://arxiv.org/abs/2101.06983.

A contrastive loss needs the last states of all rows at once, but not their activations. So the rows
go forward in chunks that keep only the last states. When the gradients of these states are known,
each chunk goes forward again, with the same dropout, and backward. The gradients equal those of the
whole batch; the summed gradients of smaller batches do not.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

LIMIT = 2**15
"""Most positions (views * texts * tokens) of one undivided forward pass, by default.

BERT base keeps 0.8 MB per position in float32. Chunks draw other random numbers than the whole
batch, so the limit must not depend on the machine. A change of it or of `CHUNK` needs a new
`ENGINE_VERSION`.
"""
CHUNK = 2**13
"""Most positions per chunk by default, unless a single text has more."""

Forward = Callable[[Tensor, Tensor, Tensor, tuple[float, ...]], Tensor]


def is_large(ids: Tensor, dropout_rates: tuple[float, ...], chunk_tokens: int) -> bool:
    """Return whether a batch, `[B, T]`, with one view per rate needs `in_chunks`.

    `chunk_tokens` is the most positions of an undivided forward pass, or 0 for the default.
    """
    return ids.numel() * len(dropout_rates) > (chunk_tokens or LIMIT)


def in_chunks(
    forward: Forward,
    ids: Tensor,
    mask: Tensor,
    types: Tensor,
    dropout_rates: tuple[float, ...],
    chunk_tokens: int,
) -> Tensor:
    """Return the states of all views, `[V * B, T, d]`, without keeping their activations.

    Args:
        forward: Returns the states of texts; takes the arguments below in their order. The
            backward pass calls it again and restores only the random state. It must therefore set
            other state that it reads, such as the rates of dropout modules.
        ids: Token ids, `[B, T]`.
        mask: True at tokens, `[B, T]`.
        types: Segments, `[B, T]`.
        dropout_rates: Dropout probability of each of the V views.
        chunk_tokens: Most positions per chunk, or 0 for the default.
    """
    positions = ids.shape[1] * len(dropout_rates)  # of one text
    if chunk_tokens:
        chunks = -(-len(ids) // max(chunk_tokens // positions, 1))
    else:
        chunks = min(-(-len(ids) * positions // CHUNK), len(ids))
    texts = zip(*(tensor.tensor_split(chunks) for tensor in (ids, mask, types)), strict=True)
    states = [checkpoint(forward, *some, dropout_rates, use_reentrant=False) for some in texts]
    by_view = [chunk.unflatten(0, (len(dropout_rates), -1)) for chunk in states]  # [V, b, T, d]
    return torch.cat(by_view, dim=1).flatten(0, 1)
