"""Growth of time and memory with rows, views, parallel seed runs and search size.

    python -m benchmarks.scale [--axes rows views …]

`rows`, `views` and `trials` measure the engine: each line in a separate process on one core, or on
the GPU, with rows of random tokens. `views` trains on 100 texts with and without gradient caching.
`search` runs driver, scheduler and store with workers that train nothing. `command` is the timeline
of a short `sclsearch train` with one seed run at a time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import cores, header, markdown, peak_memory
from sclsearch.encoders import savings
from sclsearch.encoders.load import load_encoder
from sclsearch.protocols.base import Rows, Splits
from sclsearch.search.prepare import prepare_study
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.data import Tokens
from sclsearch.training.engine import train
from sclsearch.training.spec import SeedRunSpec

LENGTH = 32
"""Tokens of a row."""
HELD_OUT = 64
"""Validation rows, and test rows; each is read once."""
SCORED = 500
"""Validation rows, and test rows, of a stored result of the usual size."""


def seed_run(
    rows: int = 128,
    length: int = LENGTH,
    batch: int = 16,
    model: str = "minilm",
    method: str = "scl",
    **settings: object,
) -> tuple[SeedRunSpec, dict[str, Tokens]]:
    """Return a seed run that reads each of some rows of random tokens once."""
    own: dict[str, object] = {"pooling": "mean", "batch_size": batch, "max_length": length}
    own |= {"epochs": 1, **({"probe_epochs": 1} if method == "supcl-seq" else {})}
    spec = StudySpec(
        task="demo",
        method=method,
        model=model,
        protocol="gunel-fewshot",
        train_size=16,
        settings={**own, **settings},
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


def measured(load: Mapping[str, Any], limit: int) -> tuple[float, float]:
    """Return the seconds of a seed run and the peak memory of its process in MB."""
    torch.set_num_threads(1)
    savings.LIMIT = limit
    spec, tokens = seed_run(**load)
    load_encoder(spec.model, spec.model_name)  # a worker reads it only once
    return train(spec, tokens).seconds, peak_memory()


def together(
    load: Mapping[str, Any], processes: int = 1, limit: int = savings.LIMIT
) -> list[tuple[float, float]]:
    """Return seconds and MB of each of several seed runs in parallel processes."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return list(pool.map(measured, [load] * processes, [limit] * processes))


def rows_axis() -> Iterator[str]:
    """Yield the table of time and memory by training rows."""
    table = []
    for rows in (64, 128, 256, 512, 1024):
        [(seconds, memory)] = together({"rows": rows})
        per_token = 1e6 * seconds / (rows * LENGTH)
        table.append([str(rows), f"{seconds:.2f}", f"{per_token:.0f}", f"{memory:.0f}"])
    yield from markdown(("rows", "s", "µs a token", "MB"), table)


def views_axis() -> Iterator[str]:
    """Yield the table of an update of 100 texts by views, with and without gradient caching."""
    rows = []
    for views in (2, 4, 8):
        rates = tuple(0.05 * view for view in range(views))
        load = {"method": "supcl-seq", "rows": 100, "batch": 100, "dropouts": rates}
        costs = [*together(load, limit=10**12)[0], *together(load, limit=0)[0]]
        rows.append([str(100 * views), *(f"{cost:.4g}" for cost in costs)])
    yield from markdown(("rows of a batch", "s", "MB", "cached: s", "cached: MB"), rows)


def trials_axis() -> Iterator[str]:
    """Yield the table of seed runs per minute by number of parallel seed runs, one core each."""
    rows, count = [], 1
    while count <= 2 * cores():
        seconds, memory = zip(*together({}, count), strict=True)
        speed = 60 * count / max(seconds)
        rows.append([str(count), f"{max(seconds):.2f}", f"{speed:.1f}", f"{sum(memory):.0f}"])
        count *= 2
    yield from markdown(("at a time", "s", "seed runs a minute", "MB in all"), rows)


def no_training(config: Mapping[str, Any], context: Any) -> None:
    """Store a result of the usual size and report it, as a worker does after its training."""
    from ray import tune

    replicate = config["replicate"]
    spec = context.study.seed_run_spec(
        json.loads(config["fields"]), replicate, context.splits[replicate]
    )
    right = int(spec.key[:8], 16) % SCORED
    counts = {"confusion": [[right, SCORED - right], [0, 0]]}
    run = SeedRun(
        key=spec.key,
        identity=spec.identity,
        origin={**context.origin, "configuration": config["configuration"], "replicate": replicate},
        evaluations=({"epoch": 1.0, "update": 9, "loss": {"ce": 0.7}, "validation": counts},) * 10,
        test=counts,
        predictions={"validation": [0.0] * SCORED, "test": [1.0] * SCORED},
    )
    RunStore(context.storage).put(run)
    tune.report({"key": spec.key, "out_of_memory": ""})


def search_cost(configs: int, seeds: int) -> tuple[float, float, float]:
    """Return a search's seconds, the memory that its driver gains in MB, and seconds to resume."""
    import ray

    from sclsearch.ray_backend import tuner
    from sclsearch.ray_backend.start import started_ray
    from sclsearch.search.run import worker_context

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    tuner.seed_run_trial = no_training  # type: ignore[attr-defined]
    spec = StudySpec(task="demo", model="minilm", train_size=16)
    with tempfile.TemporaryDirectory() as storage, started_ray(None) as scratch:
        options = RunOptions(
            storage=storage, configs=configs, seeds=seeds, race="off", gpus_per_trial=0
        )
        scheduler = prepare_study(spec, options)
        scheduler.begin()
        before, begun = peak_memory(), time.monotonic()
        scheduler.refill()
        tuner.fit(
            scheduler,
            worker_context(scheduler),
            options,
            scratch=scratch,
            gpus=0,
            concurrency=2,
            tick=lambda *_: None,
        )
        ended, memory = time.monotonic(), peak_memory() - before
        prepare_study(spec, options).refill()
        return ended - begun, memory, time.monotonic() - ended


def search_axis() -> Iterator[str]:
    """Yield the table of the driver's cost by numbers of configurations and seeds."""
    rows = []
    for size in ((10, 10), (20, 10), (40, 10), (10, 20), (10, 40)):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            costs = pool.submit(search_cost, *size).result()
        rows.append([*map(str, size), *(f"{cost:.3g}" for cost in costs)])
    yield from markdown(("configurations", "seeds", "s", "driver's MB", "resumed in s"), rows)


def command_axis() -> Iterator[str]:
    """Yield the timeline of a short command."""
    command = (
        "train --method ce --task demo --train-size 40 --set epochs=1 --model minilm --seeds 8"
    )
    with tempfile.TemporaryDirectory() as storage:
        words = [*command.split(), "--concurrency", "1", "--storage", storage]

        def seconds() -> float:
            begun = time.time()
            # Ray's workers import from the folder in which the command runs.
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
            run = [sys.executable, "-m", "sclsearch", *words]
            subprocess.run(run, env=environment, cwd=storage, capture_output=True, check=True)
            return time.time() - begun

        begun, whole = time.time(), seconds()
        runs = sorted(RunStore(storage).all(), key=lambda run: run.started)
        gaps = [after.started - before.started - before.seconds for before, after in pairwise(runs)]
        end = begun + whole - runs[-1].started - runs[-1].seconds
        found = [runs[0].started - begun, statistics.median(gaps), end, whole, seconds()]
    columns = ("first seed run, s", "between two, s", "after the last, s", "in all, s", "again, s")
    yield from markdown(columns, [[f"{value:.2f}" for value in found]])


AXES: Mapping[str, Callable[[], Iterator[str]]] = {
    "rows": rows_axis,
    "views": views_axis,
    "trials": trials_axis,
    "search": search_axis,
    "command": command_axis,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=list(AXES))
    given = parser.parse_args()
    tables = ["\n".join(AXES[axis]()) for axis in given.axes]
    print(header("ray"), *tables, sep="\n\n")


if __name__ == "__main__":
    main()
