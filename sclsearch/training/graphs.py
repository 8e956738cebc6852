"""CUDA graphs of updates: one launch per update instead of one per kernel.

Small batches do not fill a GPU: launching the kernels of an update takes the host longer than it
takes the GPU to run them. A CUDA graph records the kernels of an update once, and replays them in
one launch. It works on fixed memory and shapes, so each shape of batch has its own graph.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from sclsearch.encoders.gradient_cache import is_large
from sclsearch.methods.base import Batch, Terms

Update = Callable[[Batch], Terms]

MOST_GRAPHS = 64
"""Most shapes of batches that a stage captures; each graph takes memory."""


@dataclass(frozen=True, slots=True)
class CapturedUpdate:
    """CUDA graph of an update.

    Attributes:
        graph: The recorded kernels.
        batch: Batch that the graph reads, in memory of its own.
        terms: Loss terms that the graph writes.
    """

    graph: torch.cuda.CUDAGraph
    batch: Batch
    terms: Terms

    def __call__(self, batch: Batch) -> Terms:
        """Update the weights with a batch of the same shapes; return the loss terms."""
        new = _tensors(batch)
        for name, own in _tensors(self.batch).items():
            own.copy_(new[name])
        self.graph.replay()
        return self.terms


class GraphedUpdates:
    """Updates of a stage, replayed as CUDA graphs with the results of plain updates to the bit.

    The first update with a shape of batch is plain: it warms up the kernels and creates the states
    of the optimizer. The second one is captured. Parameters must stay in their memory between
    updates, an update must not wait for the GPU, and the current stream must not be the default
    one.

    Args:
        update: Makes a plain update.
        chunk_tokens: As in `Training`; updates of batches that it divides stay plain.
    """

    def __init__(self, update: Update, chunk_tokens: int = 0) -> None:
        self._update = update
        self._chunk_tokens = chunk_tokens
        self._captured: dict[Hashable, CapturedUpdate | None] = {}  # None after a plain update
        # Graphs replay one after another, so they can share the memory of activations.
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Terms:
        """Update the weights; return the loss terms, which the next call may overwrite."""
        # The gradient caching of a large batch reads the random state.
        if is_large(batch.ids, batch.dropout_rates, self._chunk_tokens):
            return self._update(batch)
        shapes = (*(tensor.shape for tensor in _tensors(batch).values()), batch.dropout_rates)
        if shapes not in self._captured:
            if len(self._captured) < MOST_GRAPHS:
                self._captured[shapes] = None
            return self._update(batch)
        captured = self._captured[shapes] or self._capture(batch)
        self._captured[shapes] = captured
        return captured(batch)

    def _capture(self, batch: Batch) -> CapturedUpdate:
        """Return the graph of an update, recorded but not made."""
        graph = torch.cuda.CUDAGraph()
        copies: dict[str, Any] = {name: one.clone() for name, one in _tensors(batch).items()}
        own = replace(batch, **copies)
        with torch.cuda.graph(graph, self._pool, torch.cuda.current_stream()):
            terms = self._update(own)
        return CapturedUpdate(graph, own, terms)


def _tensors(batch: Batch) -> dict[str, Tensor]:
    """Return the tensors of a batch, by the name of their field."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
