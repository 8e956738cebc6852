"""Speed of the engine on a GPU: updates with and without CUDA graphs, and parallel seed runs.

    python -m benchmarks.gpu [--models minilm …] [--updates 100] [--together 1 2 4]

Trains `scl` on rows of random tokens of one length. Without a GPU it runs on the CPU, without
graphs. `python -m benchmarks.peers` compares with transformers' Trainer.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from typing import Any

import torch

from benchmarks.machine import header, markdown, peak_memory
from benchmarks.scale import Load
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import model_folder
from sclsearch.ray_backend.start import mps_is_running
from sclsearch.training.device import backend_here
from sclsearch.training.engine import train

SHAPES = ("16x32", "16x128", "64x32", "64x128")
"""Rows of a batch, and tokens of a row."""
FEW = 10
"""Updates of a short seed run, whose time is subtracted to remove set-up and evaluation."""
SIDE = 4096
"""Rows and columns of the matrices whose products are the device's peak."""
REPEATS = 5
SEED_RUNS = 3
"""Seed runs of each process that shares the device."""
HOUR = 3600


def peak() -> float:
    """Return the floating-point operations per second of large matrix products."""
    backend = backend_here(bf16=True)
    side = SIDE if backend.device.type == "cuda" else SIDE // 4
    factor = torch.randn(side, side, device=backend.device)
    factor = factor.bfloat16() if backend.bf16 else factor

    def seconds() -> float:
        synchronize()
        begun = time.perf_counter()
        factor @ factor
        synchronize()
        return time.perf_counter() - begun

    seconds()
    return 2 * side**3 / statistics.median(seconds() for _ in range(REPEATS))


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def operations(model: str, tokens: int, length: int) -> float:
    """Return the floating-point operations of an update: three times those of a forward pass."""
    encoder: Any = load_encoder(model_folder(model), model).model
    config = encoder.config
    weights = sum(each.numel() for each in encoder.encoder.parameters() if each.dim() > 1)
    attention = 2 * config.num_hidden_layers * config.hidden_size * length
    return float(3 * 2 * tokens * (weights + attention))


def update_rows(models: Sequence[str], shapes: Sequence[str], updates: int) -> Iterator[list[str]]:
    """Yield the time of an update of each model and shape without and with graphs."""
    most = peak()
    for model in models:
        for shape in shapes:
            batch, length = map(int, shape.split("x"))
            many = Load(rows=batch * updates, length=length, batch=batch, model=model)
            few = Load(rows=batch * FEW, length=length, batch=batch, model=model)
            train(*few.data)  # loads kernels
            seconds = {
                graphs: (_seconds(many, graphs=graphs) - _seconds(few, graphs=graphs))
                / (updates - FEW)
                for graphs in (False, True)
            }
            speed = operations(model, batch * length, length) / seconds[True]
            yield [
                Path(model).name,
                shape,
                f"{1000 * seconds[False]:.1f}",
                f"{1000 * seconds[True]:.1f}",
                f"{seconds[False] / seconds[True]:.1f}",
                f"{speed / 1e12:.3g}",
                f"{speed / most:.0%}",
            ]


def _seconds(load: Load, *, graphs: bool) -> float:
    return train(*load.data, graphs=graphs).seconds


_start: Barrier
"""Barrier at which parallel processes start; set in each process."""


def _join(start: Barrier) -> None:
    global _start  # noqa: PLW0603 (an argument of a pool's task cannot be a barrier)
    _start = start


def _shared(load: Load) -> tuple[float, float]:
    """Return the seconds of a process's seed runs and its peak memory in MB."""
    torch.set_num_threads(1)
    train(*load.data)
    _start.wait()
    begun = time.perf_counter()
    for _ in range(SEED_RUNS):
        train(*load.data)
    return time.perf_counter() - begun, peak_memory()


def sharing_rows(models: Sequence[str], updates: int, counts: Sequence[int]) -> Iterator[list[str]]:
    """Yield the seed runs per hour by number of parallel seed runs."""
    context = get_context("spawn")
    for model in models:
        load = Load(rows=16 * updates, model=model)
        for count in counts:
            start = context.Barrier(count)
            with ProcessPoolExecutor(count, context, _join, (start,)) as pool:
                found = list(pool.map(_shared, [load] * count))
            longest = max(seconds for seconds, _ in found)
            memory = max(memory for _, memory in found)
            speed = HOUR * SEED_RUNS * count / longest
            yield [Path(model).name, str(count), f"{speed:.0f}", f"{memory:.0f}"]


def mps() -> str:
    """Return the sentence that says whether CUDA MPS runs."""
    return f"CUDA MPS {'runs' if mps_is_running() else 'does not run'}."


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["minilm"], help="aliases or folders")
    parser.add_argument("--shapes", nargs="*", default=SHAPES, help="rows x tokens of a batch")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--together", type=int, nargs="*", default=[1, 2, 4])
    given = parser.parse_args()
    torch.set_num_threads(1)  # as in the processes that train
    columns = ("model", "batch", "plain, ms", "graphs, ms", "times", "TFLOP/s", "of the peak")
    shared = ("model", "at a time", "seed runs an hour", "MB each")
    lines = [
        *markdown(columns, update_rows(given.models, given.shapes, given.updates)),
        "",
        *markdown(shared, sharing_rows(given.models, given.updates, given.together)),
    ]
    print(header(), *lines, "", mps(), sep="\n")


if __name__ == "__main__":
    main()
