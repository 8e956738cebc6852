"""Tests of device, precision, errors of the machine, and CUDA graphs that equal plain updates."""

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Stage, Terms
from sclsearch.methods.scl import CE
from sclsearch.training import engine
from sclsearch.training.device import backend_for, is_of_machine, is_out_of_memory
from sclsearch.training.engine import make_update, train
from sclsearch.training.evaluation import TrainingResult
from sclsearch.training.graphs import GraphedUpdates
from sclsearch.training.spec import Numerics
from tests.training.conftest import Work, WorkFor, identical

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
ATEN = torch.ops.aten
INDEXING = frozenset({ATEN.index, ATEN.index_put, ATEN.index_put_, ATEN._index_put_impl_})
OF_VALUES = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})


def all_losses(result: TrainingResult) -> list[float]:
    """Return all losses of a result, in order."""
    records: list[Any] = [*result.stages, *result.evaluations]
    return [loss for record in records for loss in record["loss"].values()]


@pytest.fixture
def graphed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[GraphedUpdates]]:
    """Return a list that gets the graphed updates of each stage that the test trains."""
    made: list[GraphedUpdates] = []

    class Recorded(GraphedUpdates):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(engine, "GraphedUpdates", Recorded)
    yield made
    torch.use_deterministic_algorithms(mode=False)


@GPU
def test_replayed_updates_equal_plain_ones_to_the_bit(
    work_for: WorkFor, method: str, graphed: list[GraphedUpdates]
) -> None:
    work = work_for(method, max_grad_norm=1.0, dropout=0.1).but(numerics="cuda-bf16")
    replayed = train(*work)
    assert graphed
    assert all(any(updates._captured.values()) for updates in graphed)
    assert identical(replayed, train(*work, graphs=False))


@pytest.mark.gpu
def test_in_bfloat16_losses_are_near_those_of_float32_and_repeatable(
    work_for: WorkFor, method: str, graphed: list[GraphedUpdates]
) -> None:
    views = {"dropouts": (0.0, 0.0)} if method in {"supcl-seq", "simcse", "dropout-aug"} else {}
    still = {"dropout": 0.0, "learning_rate": 1e-3, "chunk_tokens": 128, **views}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    work = work_for(method, evaluate="end", **still).but(max_updates=3)
    found, again, expected = (
        train(*work.but(numerics=numerics))
        for numerics in (f"{device}-bf16", f"{device}-bf16", f"{device}-fp32")
    )
    assert identical(found, again)
    assert all_losses(found) != all_losses(expected)
    assert all_losses(found) == pytest.approx(all_losses(expected), rel=0.05, abs=0.02)


class Waiting(CE):
    """Cross-entropy that makes the host wait for the GPU, which no graph can record."""

    cuda_graphs = True

    def terms(self, model: Model, batch: Batch) -> Terms:
        terms = super().terms(model, batch)
        assert all(term.item() > 0 for term in terms.values())
        return terms


def equal_without_graphs(work: Work) -> bool:
    return all(identical(train(*work), train(*work, graphs=False)) for _ in range(2))


@GPU
def test_updates_that_no_graph_can_record_are_plain(work_for: WorkFor) -> None:
    work = work_for("ce", dropout=0.1).but(numerics="cuda-bf16", method_digest="1")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # captures may fail in it later
        assert pool.submit(equal_without_graphs, work.but(method=Waiting(pooling="mean"))).result()


class HostReads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Recorder of operations whose value, or shape of the result, the host must read."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        indices = args[1] if func.overloadpacket in INDEXING else None
        by_mask = indices is None or any(i is not None and i.dtype == torch.bool for i in indices)
        if OF_VALUES & {*func.tags} and by_mask:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


def test_only_stages_that_predict_tokens_wait_for_the_device_in_an_update(
    work_for: WorkFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: dict[bool, list[str]] = defaultdict(list)

    def recorded(model: Model, stage: Stage, *given: Any) -> Terms:
        found = waits[stage.full_vocabulary]
        with monkeypatch.context() as on_gpu, HostReads(found):
            on_gpu.setattr(Tensor, "is_cuda", True)
            return make_update(model, stage, *given)

    monkeypatch.setattr(engine, "make_update", recorded)
    weighted = {"class_weights": "balanced"} if method in {"ce", "cmlm"} else {}
    train(*work_for(method, max_grad_norm=1.0, dropout=0.1, **weighted).but(max_updates=2))
    assert waits.pop(False) == []
    assert {*waits[True]} == ({"aten.nonzero.default"} if method in {"cmlm", "tapt"} else set())


ASSERT_FAILED = 'INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":838'


def raised_from(cause: Exception) -> Exception:
    error = SclsearchError("--model m: cannot be read")
    error.__cause__ = cause
    return error


def test_a_failed_allocation_on_the_cpu_is_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    ("error", "no_memory", "machine"),
    [
        (torch.OutOfMemoryError("Tried to allocate 2 GiB"), True, False),
        (torch.AcceleratorError("CUDA error: out of memory", 2), True, True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True, True),
        (RuntimeError(f"!handles_.at(i) {ASSERT_FAILED}"), False, True),
        (RuntimeError("Unexpected error from cudaGetDeviceCount(). Did you"), False, True),
        (raised_from(OSError(116, "Stale file handle")), False, True),
        (SclsearchError("pooling: out of memory of poolers"), False, False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False, False),
    ],
    ids=str,
)
def test_machine_errors_are_distinguished_from_errors_of_the_seed_run(
    error: Exception, no_memory: bool, machine: bool
) -> None:
    assert is_out_of_memory(error) == no_memory
    assert is_of_machine(error) == machine


@pytest.mark.parametrize("numerics", ["cuda-fp32", "cuda-tf32", "cuda-bf16"])
def test_a_gpu_must_be_there_is_deterministic_and_uses_tf32_only_if_asked(
    monkeypatch: pytest.MonkeyPatch, numerics: Numerics
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SclsearchError, match=rf"^{numerics}: torch finds no GPU\."):
        backend_for(numerics)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, numerics == "cuda-fp32"
    try:
        backend, allowed = backend_for(numerics), matmul.allow_tf32
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(mode=False)
        matmul.allow_tf32 = before
    assert backend.device == torch.device("cuda")
    assert backend.bf16 == (numerics == "cuda-bf16")
    assert allowed == (numerics == "cuda-tf32")


class Inherited(Waiting):
    pass


def test_only_methods_that_allow_it_use_cuda_graphs_and_only_on_a_gpu(work_for: WorkFor) -> None:
    built_in = work_for("ce").but(numerics="cuda-bf16").spec
    assert built_in.graphs
    for kind, expected in ((CE, False), (Waiting, True), (Inherited, False)):
        own = replace(built_in, method=kind(pooling="mean"), method_digest="1")
        assert own.graphs is expected
    assert not replace(built_in, numerics="cpu-fp32").graphs
