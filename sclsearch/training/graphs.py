"""CUDA graphs of updates.

Small batches do not fill a GPU: launching the kernels of an update takes the host longer than it
takes the GPU to run them. A CUDA graph records the kernels of an update once, and replays them in
one launch. It works on fixed memory and shapes, so each shape of batch has its own graph.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from sclsearch.encoders.savings import is_large
from sclsearch.methods.base import Batch, Terms

Update = Callable[[Batch], Terms]

MOST_GRAPHS = 64
"""Most shapes of batches that a stage captures; each graph takes memory."""
_FAILED: list[RuntimeError] = []
"""Failed captures of this process: torch may refuse to capture anything after one."""


@dataclass(frozen=True, slots=True)
class CapturedUpdate:
    """CUDA graph of an update."""

    graph: torch.cuda.CUDAGraph
    batch: Batch  # the graph reads it, in memory of its own
    terms: Terms  # the graph writes them

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
    one. Updates of batches that `chunk_tokens` divides stay plain. So do all updates of a process
    after a capture has failed; `zero_grad` then removes the gradients of the failed one.
    """

    def __init__(
        self, update: Update, chunk_tokens: int = 0, zero_grad: Callable[[], object] = lambda: None
    ) -> None:
        self._update = update
        self._chunk_tokens = chunk_tokens
        self._zero_grad = zero_grad
        self._captured: dict[Hashable, CapturedUpdate | None] = {}  # None after a plain update
        # Graphs replay one after another, so they can share the memory of activations.
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Terms:
        """Update the weights; return the loss terms, which the next call may overwrite."""
        # The gradient caching of a large batch reads the random state.
        if _FAILED or is_large(batch.ids, batch.dropout_rates, self._chunk_tokens):
            return self._update(batch)
        shapes = (*(tensor.shape for tensor in _tensors(batch).values()), batch.dropout_rates)
        if shapes not in self._captured:
            if len(self._captured) < MOST_GRAPHS:
                self._captured[shapes] = None
            return self._update(batch)
        captured = self._captured[shapes] or self._capture(batch)
        if captured is None:
            self._captured.clear()
            return self._update(batch)
        self._captured[shapes] = captured
        return captured(batch)

    def _capture(self, batch: Batch) -> CapturedUpdate | None:
        """Return the graph of an update; None if it fails, because it waits for the GPU, say."""
        graph, random = torch.cuda.CUDAGraph(), torch.cuda.get_rng_state()
        copies: dict[str, Any] = {name: one.clone() for name, one in _tensors(batch).items()}
        own = replace(batch, **copies)
        try:
            with torch.cuda.graph(graph, self._pool, torch.cuda.current_stream()):
                terms = self._update(own)
        except RuntimeError as error:
            _FAILED.append(error)
            # The generator still belongs to the graph, and would refuse every draw.
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(torch.Generator("cuda"))
            torch.cuda.set_rng_state(random)
            self._zero_grad()
            return None
        return CapturedUpdate(graph, own, terms)


def _tensors(batch: Batch) -> dict[str, Tensor]:
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
