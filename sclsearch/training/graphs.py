"""CUDA graphs of updates: one launch per update instead of one per kernel.

Small batches do not fill a GPU: launching the kernels of an update takes the host longer than it
takes the GPU to run them. A CUDA graph records the kernels of an update once, and replays them in
one launch. It works on fixed memory and shapes, so each shape of batch has its own graph.
"""

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from sclsearch.encoders.gradient_cache import is_large
from sclsearch.errors import first_line
from sclsearch.methods.base import Batch, Model, Terms
from sclsearch.training.device import is_out_of_memory

Update = Callable[[Batch], Terms]

MOST_GRAPHS = 64
"""Most shapes of batches that a stage captures; each graph takes memory."""
SYNCHRONIZATION, WAIT = "synchroniz", "called a synchronizing"
"""Words of torch's warnings of its debug mode, and of an operation that waits for the GPU."""
NO_MEMORY = "the GPU has too little free memory for a graph"
_FAILED: list[str] = []
"""Why captures failed in this process; torch's allocator may take them for unfinished."""


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

    The first update of a stage is plain, because it creates the states of the optimizer. The first
    update with another shape of batch is plain, undone, captured and replayed. If losses, weights,
    optimizer states or random states then differ, or if the capture fails, all further updates are
    plain. Parameters must stay in their memory between updates, and the current stream must not be
    the default one.

    Args:
        update: Makes a plain update.
        model: The model that it trains.
        optimizer: The optimizer that it uses.
        chunk_tokens: As in `Training`; updates of batches that it divides stay plain.

    Attributes:
        failure: Why all further updates are plain; empty if they are not.
    """

    def __init__(
        self,
        update: Update,
        model: Model,
        optimizer: torch.optim.Optimizer,
        chunk_tokens: int = 0,
    ) -> None:
        self.failure = f"an earlier capture failed: {_FAILED[0]}" if _FAILED else ""
        self._update = update
        self._model = model
        self._optimizer = optimizer
        self._chunk_tokens = chunk_tokens
        self._captured: dict[Hashable, CapturedUpdate] = {}
        # Graphs replay one after another, so they can share the memory of activations.
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Terms:
        """Update the weights; return the loss terms, which the next call may overwrite."""
        # The gradient caching of a large batch reads the random state.
        if self.failure or is_large(batch.ids, batch.dropout_rates, self._chunk_tokens):
            return self._update(batch)
        shapes = (*(tensor.shape for tensor in _tensors(batch).values()), batch.dropout_rates)
        captured = self._captured.get(shapes)
        if captured is not None:
            return captured(batch)
        if not self._optimizer.state or len(self._captured) == MOST_GRAPHS:
            return self._watched(batch)
        return self._compared(batch, shapes)

    def _watched(self, batch: Batch) -> Terms:
        """Make a plain update; give up if it waits for the GPU, which a graph cannot record."""
        mode = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                terms = self._update(batch)
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        others = [one for one in caught if SYNCHRONIZATION not in str(one.message).lower()]
        for one in others:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        if any(WAIT in str(one.message) for one in caught):
            self._give_up("an update makes the host wait for the GPU")
        return terms

    def _compared(self, batch: Batch, shapes: Hashable) -> Terms:
        """Make a plain update; undo it, capture it and replay it; keep the graph if it agrees."""
        state = self._state()
        if _free_memory() < 2 * sum(tensor.nbytes for tensor in state):
            self._give_up(NO_MEMORY)
            return self._update(batch)
        before, random_before = _copies(state), torch.cuda.get_rng_state()
        allocated = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        plain_terms = self._watched(batch)
        activations = torch.cuda.max_memory_allocated() - allocated
        if _places(self._state()) != _places(state):
            self._give_up("an update changes which tensors it trains")
        if self.failure:
            return plain_terms
        plain, random_after = _copies(state), torch.cuda.get_rng_state()
        if _free_memory() < 2 * activations:  # a failed allocation would end the capture
            self._give_up(NO_MEMORY)
            return plain_terms
        torch._foreach_copy_(state, before)
        torch.cuda.set_rng_state(random_before)
        captured = self._capture(batch)
        if captured is not None:
            terms = captured(batch)
            found = [*state, *terms.values(), torch.cuda.get_rng_state()]
            expected = [*plain, *plain_terms.values(), random_after]
            if terms.keys() == plain_terms.keys() and all(map(torch.equal, found, expected)):
                self._captured[shapes] = captured
                return plain_terms
            self._give_up("a replayed update gives other results than a plain one")
        self._optimizer.zero_grad()
        torch._foreach_copy_(state, plain)
        torch.cuda.set_rng_state(random_after)
        return plain_terms

    def _capture(self, batch: Batch) -> CapturedUpdate | None:
        """Return the graph of an update, recorded but not made; None if the capture fails."""
        graph = torch.cuda.CUDAGraph()
        copies: dict[str, Any] = {name: one.clone() for name, one in _tensors(batch).items()}
        own = replace(batch, **copies)
        try:
            with torch.cuda.graph(graph, self._pool, torch.cuda.current_stream()):
                terms = self._update(own)
        except RuntimeError as error:
            # The generator still counts for the graph, and so would refuse every draw.
            device = torch.cuda.current_device()
            torch.cuda.default_generators[device].graphsafe_set_state(torch.Generator("cuda"))
            first = "out of memory" if is_out_of_memory(error) else _first_error(error)
            self._give_up(f"an update cannot be captured: {first}")
            _FAILED.append(first)
            return None
        return CapturedUpdate(graph, own, terms)

    def _give_up(self, why: str) -> None:
        """Make only plain updates from now on, and free the memory of the graphs."""
        self.failure = why
        self._captured.clear()

    def _state(self) -> list[Tensor]:
        """Return the tensors that an update changes."""
        trained = [p.detach() for p in self._model.parameters() if p.requires_grad]
        kept = [
            value
            for values in self._optimizer.state.values()
            for value in values.values()
            if isinstance(value, Tensor)
        ]
        return [*trained, *self._model.buffers(), *kept]


def _first_error(error: BaseException) -> str:
    while error.__context__ is not None:  # leaving a failed capture raises a second error
        error = error.__context__
    return first_line(error)


def _free_memory() -> int:
    """Return the bytes that torch can still allocate on the GPU."""
    free, _ = torch.cuda.mem_get_info()
    return free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()


def _places(tensors: list[Tensor]) -> list[int]:
    """Return the addresses of tensors."""
    return [tensor.data_ptr() for tensor in tensors]


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    copies = [torch.empty_like(tensor) for tensor in tensors]
    torch._foreach_copy_(copies, tensors)
    return copies


def _tensors(batch: Batch) -> dict[str, Tensor]:
    """Return the tensors of a batch, by the name of their field."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
