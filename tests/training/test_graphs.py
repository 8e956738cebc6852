"""Tests of CUDA graphs: replayed updates equal plain ones, or updates stay plain."""

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sclsearch.methods.base import Batch, Model, Terms
from sclsearch.methods.ce import CE
from sclsearch.training import engine
from sclsearch.training.engine import train
from sclsearch.training.graphs import NO_MEMORY, CapturedUpdate, GraphedUpdates
from sclsearch.training.result import TrainingResult
from sclsearch.training.spec import TrainingData
from tests.training.conftest import WorkFor
from tests.training.test_gpu import identical

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
EMPTY = torch.empty(0)


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


def on_gpu(work: TrainingData, method: CE | None = None) -> TrainingData:
    spec = replace(work.spec, numerics="cuda-bf16", method=method or work.spec.method)
    return replace(work, spec=spec)


@GPU
def test_replayed_updates_equal_plain_ones_to_the_bit(
    work_for: WorkFor, method: str, graphed: list[GraphedUpdates]
) -> None:
    work = on_gpu(work_for(method, max_grad_norm=1.0, dropout=0.1))
    replayed = train(work)
    assert graphed
    assert all(not updates.failure and updates._captured for updates in graphed)
    assert identical(replayed, train(work, graphs=False))


@dataclass(frozen=True)
class Waits(CE):
    """Cross-entropy that reads a value from the GPU."""

    def terms(self, model: Model, batch: Batch) -> Terms:
        ce = super().terms(model, batch)["ce"]
        return {"ce": ce if ce.item() > 0 else -ce}


@dataclass(frozen=True)
class Synchronizes(CE):
    """Cross-entropy that waits for the GPU without reading from it."""

    def terms(self, model: Model, batch: Batch) -> Terms:
        torch.cuda.synchronize()
        return super().terms(model, batch)


@dataclass(frozen=True)
class Replaces(CE):
    """Cross-entropy with a mean in a buffer that is a new tensor after each update."""

    def new_modules(self, encoder: Any, classes: int) -> nn.ModuleDict:
        modules = super().new_modules(encoder, classes)
        modules["head"].register_buffer("mean", torch.zeros(()))
        return modules

    def terms(self, model: Model, batch: Batch) -> Terms:
        ce = super().terms(model, batch)["ce"]
        head: Any = model.new_modules["head"]
        head.mean = 0.9 * head.mean + 0.1 * ce.detach()
        return {"ce": ce + head.mean}


def both_ways(work: TrainingData) -> tuple[TrainingResult, TrainingResult]:
    return train(work), train(work, graphs=False)


@GPU
@pytest.mark.parametrize(
    ("method", "why"),
    [
        (Waits(pooling="mean"), "makes the host wait for the GPU"),
        (Synchronizes(pooling="mean"), "cannot be captured: "),
        (Replaces(pooling="mean"), "changes which tensors it trains"),
    ],
)
def test_updates_that_cannot_be_captured_run_without_graphs_and_leave_a_note(
    work_for: WorkFor, method: CE, why: str
) -> None:
    work = on_gpu(work_for("ce", dropout=0.1), method)
    # A failed capture can affect the rest of its process.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        result, plain = process.submit(both_ways, work).result()
    (note,) = (note for note in result.notes if "no CUDA graphs" in note)
    assert why in note
    assert identical(result, plain)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the functions of torch.cuda, so that the CPU takes the part of the GPU."""
    free = 2**30
    for name, value in (
        ("graph_pool_handle", lambda: (0, 0)),
        ("get_rng_state", torch.get_rng_state),
        ("set_rng_state", torch.set_rng_state),
        ("get_sync_debug_mode", lambda: 0),
        ("set_sync_debug_mode", lambda _: None),
        ("mem_get_info", lambda: (free, free)),
        ("memory_reserved", lambda: 0),
        ("memory_allocated", lambda: 0),
        ("reset_peak_memory_stats", lambda: None),
    ):
        monkeypatch.setattr(torch.cuda, name, value)


class Regression:
    """Linear regression with dropout, the update of which a test can replace in the replay."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model: Any = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.5))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.updates = 0

    def update(self, batch: Batch) -> Terms:
        self.updates += 1
        loss = (self.model(batch.ids).squeeze(1) - batch.y).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"loss": loss.detach()}

    def weights(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


def batches(*sizes: int) -> Iterator[Batch]:
    rng = torch.Generator().manual_seed(1)
    for size in sizes:
        ids, y = torch.randn(size, 3, generator=rng), torch.randn(size, generator=rng)
        yield Batch(ids, EMPTY, EMPTY, EMPTY, y, (0.0,))


def test_a_replay_reads_the_new_batch_in_the_memory_of_the_captured_one() -> None:
    first, new = batches(4, 4)
    places = first.ids.data_ptr()
    read: list[float] = []

    class Graph:
        def replay(self) -> None:
            read.append(float(first.ids.sum() + first.y.sum()))

    terms = {"loss": EMPTY}
    captured = CapturedUpdate(Graph(), first, terms)  # type: ignore[arg-type]
    assert captured(new) is terms
    assert read == [float(new.ids.sum() + new.y.sum())]
    assert first.ids.data_ptr() == places


SIZES = (4, 4, 2, 4, 2, 2, 4)


def test_each_shape_is_captured_once_and_gives_the_results_of_plain_updates(
    simulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Regression()
    expected = [float(plain.update(batch)["loss"]) for batch in batches(*SIZES)]
    other = Regression()
    captured: list[int] = []

    def capture(_: GraphedUpdates, batch: Batch) -> Callable[[Batch], Terms]:
        captured.append(len(batch.y))
        return other.update

    monkeypatch.setattr(GraphedUpdates, "_capture", capture)
    graphed = GraphedUpdates(other.update, other.model, other.optimizer)
    found = [float(graphed(batch)["loss"]) for batch in batches(*SIZES)]
    assert found == expected
    assert torch.equal(other.weights(), plain.weights())
    assert captured == [4, 2]
    assert other.updates == len(SIZES) + 2
    assert not graphed.failure


@pytest.mark.parametrize("captured", [None, lambda _: {"loss": EMPTY}])
def test_a_replay_with_other_results_is_undone(
    captured: CapturedUpdate | None, simulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Regression()
    expected = [float(plain.update(batch)["loss"]) for batch in batches(*SIZES)]
    other = Regression()
    monkeypatch.setattr(GraphedUpdates, "_capture", lambda *_: captured)
    graphed = GraphedUpdates(other.update, other.model, other.optimizer)
    found = [float(graphed(batch)["loss"]) for batch in batches(*SIZES)]
    assert found == expected
    assert torch.equal(other.weights(), plain.weights())
    assert not graphed._captured
    if captured is not None:
        assert graphed.failure == "a replayed update gives other results than a plain one"
        assert other.updates == len(SIZES)


@pytest.mark.parametrize("free", [0, 10_000])
def test_without_memory_for_a_graph_updates_are_plain(
    free: int, simulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Regression()
    expected = [float(plain.update(batch)["loss"]) for batch in batches(*SIZES)]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, free))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 5_001)
    other = Regression()
    graphed = GraphedUpdates(other.update, other.model, other.optimizer)
    assert [float(graphed(batch)["loss"]) for batch in batches(*SIZES)] == expected
    assert graphed.failure == NO_MEMORY


def test_warnings_of_an_update_reach_the_user(simulated: None) -> None:
    work = Regression()

    def warning(batch: Batch) -> Terms:
        warnings.warn("the loss is odd", UserWarning, stacklevel=1)
        return work.update(batch)

    graphed = GraphedUpdates(warning, work.model, work.optimizer)
    with pytest.warns(UserWarning, match="the loss is odd"):
        graphed(next(batches(4)))
    assert not graphed.failure


class Stated(CE):
    cuda_graphs = True


class Inherited(Stated):
    pass


def test_custom_methods_use_cuda_graphs_only_if_their_class_sets_it(work_for: WorkFor) -> None:
    built_in = on_gpu(work_for("ce")).spec
    assert built_in.graphs
    for kind, expected in ((CE, False), (Stated, True), (Inherited, False)):
        own = replace(built_in, method=kind(pooling="mean"), method_digest="1")
        assert own.graphs is expected
    assert not replace(built_in, numerics="cpu-fp32").graphs
