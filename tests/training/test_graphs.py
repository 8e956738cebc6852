"""Tests of CUDA graphs: replayed updates equal plain ones."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sclsearch.methods.base import Batch, Model, Terms
from sclsearch.methods.scl import CE
from sclsearch.training import engine
from sclsearch.training.device import CapturedUpdate, GraphedUpdates
from sclsearch.training.engine import train
from tests.training.conftest import Work, WorkFor
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


def on_gpu(work: Work, method: CE | None = None) -> Work:
    spec = replace(work.spec, numerics="cuda-bf16", method=method or work.spec.method)
    return work._replace(spec=spec)


@GPU
def test_replayed_updates_equal_plain_ones_to_the_bit(
    work_for: WorkFor, method: str, graphed: list[GraphedUpdates]
) -> None:
    work = on_gpu(work_for(method, max_grad_norm=1.0, dropout=0.1))
    replayed = train(*work)
    assert graphed
    assert all(any(updates._captured.values()) for updates in graphed)
    assert identical(replayed, train(*work, graphs=False))


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = Regression()
    expected = [float(plain.update(batch)["loss"]) for batch in batches(*SIZES)]
    other = Regression()
    captured: list[int] = []

    def capture(_: GraphedUpdates, batch: Batch) -> Callable[[Batch], Terms]:
        captured.append(len(batch.y))
        return other.update

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    monkeypatch.setattr(GraphedUpdates, "_capture", capture)
    graphed = GraphedUpdates(other.update)
    found = [float(graphed(batch)["loss"]) for batch in batches(*SIZES)]
    assert found == expected
    assert torch.equal(other.weights(), plain.weights())
    assert captured == [4, 2]
    assert other.updates == len(SIZES)


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
    work = on_gpu(work_for("ce", dropout=0.1), Waiting(pooling="mean"))
    work = work._replace(spec=replace(work.spec, method_digest="1"))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # captures may fail in it later
        assert pool.submit(equal_without_graphs, work).result()
