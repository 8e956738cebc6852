"""Device and precision of a seed run, errors that the machine caused, and CUDA graphs of updates.

Small batches do not fill a GPU: launching the kernels of an update takes the host longer than it
takes the GPU to run them. A CUDA graph records the kernels of an update once, and replays them in
one launch. It works on fixed memory and shapes, so each shape of batch has its own graph.
"""

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sclsearch.encoders.savings import is_large
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Terms
from sclsearch.training.spec import Numerics

NO_MEMORY = ("out of memory", "can't allocate memory", "_STATUS_ALLOC_FAILED")
BROKEN = (
    "CUDA error",
    "CUBLAS_STATUS_",
    "cuDNN error",
    "CUDNN_STATUS_",
    "CUDACachingAllocator",
    "cudaGetDeviceCount",
)


@dataclass(frozen=True, slots=True)
class Backend:
    """Device of a model, and precision of its matrix products and attention.

    Weights, the optimizer and losses are always in float32.
    """

    device: torch.device
    bf16: bool = False

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)

    def stream(self) -> AbstractContextManager[object]:
        """Return the context of a seed run: on a GPU, a stream that CUDA graphs can record."""
        if self.device.type != "cuda":
            return nullcontext()
        return torch.cuda.stream(_stream())


@cache
def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def backend_for(numerics: Numerics) -> Backend:
    """Return the backend of a seed run; for CUDA, enable deterministic kernels.

    A custom method that uses an operation without a deterministic kernel gets torch's error.
    """
    kind, _, precision = numerics.partition("-")
    bf16 = precision == "bf16"
    if kind == "cpu":
        # oneDNN reads this at its first use in a process. By default it caches kernels for 1024
        # shapes, but few batches share a shape. The small cached blocks fragment the memory, so
        # gigabytes of freed memory stay unused. An update needs two kernels.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        return Backend(torch.device("cpu"), bf16)
    if not torch.cuda.is_available():
        raise SclsearchError(f"{numerics}: torch finds no GPU. Use a machine with a GPU.")
    # cuBLAS reads this at its first use in a process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # With warn_only, the backward pass of fused attention would stay nondeterministic.
    torch.use_deterministic_algorithms(True)
    # Filling would launch one more kernel per tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return Backend(torch.device("cuda"), bf16)


def backend_here(*, gpu: bool = True, bf16: bool = False) -> Backend:
    """Return the GPU if wanted and there, else the CPU; with bfloat16 if wanted and fast there."""
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    return Backend(device, bf16 and fast_bf16(device))


def fast_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for bfloat16, without which it is slow.

    These are GPUs of compute capability 8.0 or higher, and CPUs with AVX512-BF16 or AMX.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


@contextmanager
def used_threads(count: int) -> Iterator[None]:
    """Compute on a number of threads, on which results depend, during the body."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports that GPU memory or main memory is exhausted."""
    # The CPU allocator and cuBLAS raise plain RuntimeErrors.
    by_message = isinstance(error, RuntimeError) and any(sign in str(error) for sign in NO_MEMORY)
    return by_message or isinstance(error, torch.OutOfMemoryError | MemoryError)


def is_of_machine(error: BaseException) -> bool:
    """Return whether a file system or a GPU caused an error, and not the computation.

    A failed assertion on the GPU can come from either. It makes the process unusable, so it counts
    as a machine error. Its message limits it to one retry.
    """
    if isinstance(error, RuntimeError):
        return any(sign in str(error) for sign in BROKEN)
    return isinstance(error.__cause__ or error, OSError)


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
        self,
        update: Update,
        chunk_tokens: int = 0,
        zero_grad: Callable[[], object] = lambda: None,
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
