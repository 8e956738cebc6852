"""Growth of time and memory with rows, lengths, views, parallel seed runs and search size.

    python -m benchmarks.growth [--axes rows length …] [--model minilm]

Each line is measured in a separate process on one core, or on the GPU, with rows of random tokens
of one length. `views` trains on 100 texts with and without gradient caching. The search axes need
Ray; they run driver, scheduler and store with workers that train nothing.
"""

import argparse
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import cores, header, markdown, peak_memory
from sclsearch.encoders import gradient_cache
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import model_folder
from sclsearch.methods import method_class
from sclsearch.methods.base import Training
from sclsearch.protocols.base import Rows, Splits, all_seeds
from sclsearch.tasks.base import Task
from sclsearch.training.data import TokenizedTask, Tokens
from sclsearch.training.engine import train
from sclsearch.training.spec import SeedRunSpec, TrainingData

FIRST, LAST = 1000, 4000
"""Token ids are drawn from these."""
HELD_OUT = 64
"""Validation rows, and test rows; each is read once."""
NEVER = 10**12


@dataclass(frozen=True, slots=True)
class Load:
    """Size of a seed run.

    Attributes:
        method: The method.
        rows: Number of training rows; each is read once.
        length: Tokens per row.
        batch: Rows per batch.
        views: Views per text, for `supcl-seq`.
        limit: Number of positions above which a batch is divided into chunks.
        model: The encoder.
    """

    method: str = "scl"
    rows: int = 128
    length: int = 32
    batch: int = 16
    views: int = 0
    limit: int = gradient_cache.LIMIT
    model: str = "minilm"

    @property
    def data(self) -> TrainingData:
        """Input of the engine."""
        folder = model_folder(self.model)
        kind: Any = method_class(self.method)
        return TrainingData(
            SeedRunSpec(
                task=Task("random", "random tokens", ("no", "yes"), "accuracy"),
                data_digest="random",
                splits=Splits(
                    Rows("train", np.arange(self.rows)),
                    Rows("validation", np.arange(HELD_OUT)),
                    Rows("test", np.arange(HELD_OUT)),
                ),
                metric="accuracy",
                evaluate="end",
                keep="last",
                method_name=self.method,
                method=kind(pooling="mean", **_own(self)),
                training=Training(batch_size=self.batch, epochs=1, max_length=self.length),
                replicate=all_seeds(0),
                model_name=self.model,
                model=folder,
                model_digest="",
                numerics="cuda-bf16" if torch.cuda.is_available() else "cpu-fp32",
            ),
            TokenizedTask(
                {
                    "train": _random(self.rows, self.length),
                    "validation": _random(HELD_OUT, self.length),
                    "test": _random(HELD_OUT, self.length),
                },
                classes=2,
                pad=0,
            ),
        )


def _own(load: Load) -> dict[str, object]:
    rates = tuple(0.05 * view for view in range(load.views))
    return {"dropouts": rates, "probe_epochs": 1} if load.views else {}


def _random(rows: int, length: int) -> Tokens:
    rng = np.random.default_rng(rows)
    size = rows * length
    return Tokens(
        ids=rng.integers(FIRST, LAST, size, dtype=np.int32),
        types=np.zeros(size, dtype=np.int8),
        content=np.ones(size, dtype=np.bool_),
        starts=np.arange(rows + 1) * length,
        y=rng.integers(0, 2, rows),
        max_length=length,
    )


def measured(load: Load) -> tuple[float, float]:
    """Return the seconds of a seed run and the peak memory of its process in MB."""
    torch.set_num_threads(1)
    gradient_cache.LIMIT = load.limit
    data = load.data
    load_encoder(data.spec.model, load.model)  # a worker reads it only once
    return train(data).seconds, peak_memory()


def alone(load: Load) -> tuple[float, float]:
    """Return seconds and MB of a seed run in a new process."""
    return together(load, 1)[0]


def together(load: Load, processes: int) -> list[tuple[float, float]]:
    """Return seconds and MB of each of several seed runs in parallel processes."""
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, max_tasks_per_child=1) as pool:
        return list(pool.map(measured, [load] * processes))


def of_seed_runs(name: str, loads: Mapping[int, Load]) -> Iterator[str]:
    """Yield the table of seed runs of growing size."""
    rows = []
    for value, load in loads.items():
        seconds, memory = alone(load)
        tokens = load.rows * load.length * max(load.views, 1)
        rows.append(
            [f"{value}", f"{seconds:.2f}", f"{1e6 * seconds / tokens:.0f}", f"{memory:.0f}"]
        )
    yield from markdown((name, "s", "µs a token", "MB"), rows)


def rows_axis(model: str) -> Iterator[str]:
    """Yield the table of time and memory by training rows."""
    sizes = (64, 128, 256, 512, 1024)
    yield from of_seed_runs("rows", {size: Load(rows=size, model=model) for size in sizes})


def length_axis(model: str) -> Iterator[str]:
    """Yield the table of time and memory by length of the rows."""
    lengths = (16, 32, 64, 128, 256)
    yield from of_seed_runs("length", {n: Load(length=n, rows=64, model=model) for n in lengths})


def views_axis(model: str) -> Iterator[str]:
    """Yield the table of an update of 100 texts by views, with and without gradient caching."""
    rows = []
    for views in (2, 4, 8):
        load = Load("supcl-seq", 100, 32, 100, views, model=model)
        seconds, memory = alone(replace(load, limit=NEVER))
        cached_seconds, cached = alone(replace(load, limit=0))
        costs = (seconds, memory, cached_seconds, cached)
        rows.append([str(100 * views), *(f"{cost:.4g}" for cost in costs)])
    yield from markdown(("rows of a batch", "s", "MB", "cached: s", "cached: MB"), rows)


def trials_axis(model: str) -> Iterator[str]:
    """Yield the table of seed runs per minute by number of parallel seed runs, one core each."""
    rows, count = [], 1
    while count <= 2 * cores():
        found = together(Load(model=model), count)
        longest = max(seconds for seconds, _ in found)
        memory = sum(memory for _, memory in found)
        rows.append([str(count), f"{longest:.2f}", f"{60 * count / longest:.1f}", f"{memory:.0f}"])
        count *= 2
    yield from markdown(("at a time", "s", "seed runs a minute", "MB in all"), rows)


def search_axes(model: str) -> Iterator[str]:
    """Yield the table of the driver's cost by numbers of configurations and seeds."""
    if importlib.util.find_spec("ray") is None:
        yield "Ray is not installed: no search."
        return
    from benchmarks.head_cost import cost

    rows = []
    for configurations, seeds in ((10, 10), (20, 10), (40, 10), (10, 20), (10, 40)):
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
            found = pool.submit(cost, configurations * seeds, seeds, model).result()
        costs = (found.seed_runs / found.per_second, found.memory, found.resume)
        rows.append([str(configurations), str(seeds), *(f"{value:.3g}" for value in costs)])
    yield from markdown(("configurations", "seeds", "s", "driver's MB", "resumed in s"), rows)


AXES: Mapping[str, Callable[[str], Iterator[str]]] = {
    "rows": rows_axis,
    "length": length_axis,
    "views": views_axis,
    "trials": trials_axis,
    "search": search_axes,
}


def sections(axes: Sequence[str], model: str) -> Iterator[str]:
    """Yield one table per axis."""
    for axis in axes:
        yield ""
        yield from AXES[axis](model)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=list(AXES))
    parser.add_argument("--model", default="minilm", help="an alias, or a folder")
    given = parser.parse_args()
    folder = Path(given.model)
    model = str(folder.resolve()) if folder.is_dir() else given.model
    lines = list(sections(given.axes, model))
    print(header("ray"), *lines, sep="\n")


if __name__ == "__main__":
    main()
