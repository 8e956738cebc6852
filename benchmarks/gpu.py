"""Speed of the engine on a GPU: updates with and without CUDA graphs, and parallel seed runs.

    python -m benchmarks.gpu [--models minilm …] [--updates 100] [--together 1 2 4]

Trains `scl` on rows of random tokens of one length. Without a GPU it runs on the CPU, without
graphs.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

import numpy as np
import torch

from benchmarks.machine import header, markdown, peak_memory
from sclsearch.protocols.base import Rows, Splits
from sclsearch.ray_backend.start import mps_is_running
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.data import Tokens
from sclsearch.training.engine import train
from sclsearch.training.spec import SeedRunSpec

SHAPES = ("16x32", "16x128", "64x32", "64x128")
"""Rows of a batch, and tokens of a row."""
FEW = 10
"""Updates of a short seed run, whose time is subtracted to remove set-up and evaluation."""
SEED_RUNS = 3
"""Seed runs of each process that shares the device."""
HELD_OUT = 64
"""Validation rows, and test rows; each is read once."""


def seed_run(
    rows: int = 128,
    length: int = 32,
    batch: int = 16,
    model: str = "minilm",
) -> tuple[SeedRunSpec, dict[str, Tokens]]:
    """Return a seed run that reads each of some rows of random tokens once."""
    spec = StudySpec(
        task="demo",
        model=model,
        protocol="gunel-fewshot",
        train_size=16,
        settings={"pooling": "mean", "batch_size": batch, "max_length": length, "epochs": 1},
        searched=False,
    )
    sizes = {"train": rows, "validation": HELD_OUT, "test": HELD_OUT}
    parts = [Rows(name, np.arange(size)) for name, size in sizes.items()]
    splits = Splits(parts[0], parts[1], parts[2])
    run = resolve(spec, RunOptions()).seed_run_spec({}, 0, splits)
    draw = np.random.default_rng(rows)
    tokens = {
        name: Tokens(
            ids=draw.integers(1000, 4000, size * length, dtype=np.int32),
            types=np.zeros(size * length, dtype=np.int8),
            content=np.ones(size * length, dtype=np.bool_),
            starts=np.arange(size + 1) * length,
            y=draw.integers(0, 2, size),
            max_length=length,
            pad=0,
        )
        for name, size in sizes.items()
    }
    return replace(run, evaluate="end", keep="last"), tokens


def update_rows(models: Sequence[str], shapes: Sequence[str], updates: int) -> Iterator[list[str]]:
    """Yield the time of an update of each model and shape without and with graphs."""
    for model in models:
        for shape in shapes:
            batch, length = map(int, shape.split("x"))
            many = seed_run(batch * updates, length, batch, model)
            few = seed_run(batch * FEW, length, batch, model)
            train(*few)  # loads kernels
            plain, graphs = (
                (train(*many, graphs=use).seconds - train(*few, graphs=use).seconds)
                / (updates - FEW)
                for use in (False, True)
            )
            times = [f"{1000 * plain:.1f}", f"{1000 * graphs:.1f}", f"{plain / graphs:.1f}"]
            yield [Path(model).name, shape, *times]


_start: Barrier
"""Barrier at which parallel processes start; set in each process."""


def _join(start: Barrier) -> None:
    global _start  # noqa: PLW0603 (an argument of a pool's task cannot be a barrier)
    _start = start


def _shared(rows: int, model: str) -> tuple[float, float]:
    """Return the seconds of a process's seed runs and its peak memory in MB."""
    torch.set_num_threads(1)
    run = seed_run(rows, model=model)
    train(*run)
    _start.wait()
    begun = time.perf_counter()
    for _ in range(SEED_RUNS):
        train(*run)
    return time.perf_counter() - begun, peak_memory()


def sharing_rows(models: Sequence[str], updates: int, counts: Sequence[int]) -> Iterator[list[str]]:
    """Yield the seed runs per hour by number of parallel seed runs."""
    context = get_context("spawn")
    for model in models:
        for count in counts:
            start = context.Barrier(count)
            with ProcessPoolExecutor(count, context, _join, (start,)) as pool:
                found = list(pool.map(_shared, [16 * updates] * count, [model] * count))
            seconds, memory = (max(values) for values in zip(*found, strict=True))
            speed = 3600 * SEED_RUNS * count / seconds
            yield [Path(model).name, str(count), f"{speed:.0f}", f"{memory:.0f}"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["minilm"], help="aliases or folders")
    parser.add_argument("--shapes", nargs="*", default=SHAPES, help="rows x tokens of a batch")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--together", type=int, nargs="*", default=[1, 2, 4])
    given = parser.parse_args()
    torch.set_num_threads(1)  # as in the processes that train
    columns = ("model", "batch", "plain, ms", "graphs, ms", "times")
    shared = ("model", "at a time", "seed runs an hour", "MB each")
    lines = [
        *markdown(columns, update_rows(given.models, given.shapes, given.updates)),
        "",
        *markdown(shared, sharing_rows(given.models, given.updates, given.together)),
    ]
    mps = f"CUDA MPS {'runs' if mps_is_running() else 'does not run'}."
    print(header(), *lines, "", mps, sep="\n")


if __name__ == "__main__":
    main()
