"""Cost of the driver by the size of a search, and the timeline of a short command.

    python -m benchmarks.scale

The first table runs driver, scheduler and store with workers that train nothing. The second one is
a short `sclsearch train` with one seed run at a time, and the same command again.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.machine import header, markdown, peak_memory
from sclsearch.search.prepare import prepare_study
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.spec import RunOptions, StudySpec

SCORED = 500
"""Validation rows, and test rows, of a stored result of the usual size."""


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
    tune.report({"key": spec.key, "run": replace(run, predictions={})})


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


def search_table() -> Iterator[str]:
    """Yield the table of the driver's cost by numbers of configurations and seeds."""
    rows = []
    for size in ((10, 10), (20, 10), (40, 10), (10, 20), (10, 40)):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            costs = pool.submit(search_cost, *size).result()
        rows.append([*map(str, size), *(f"{cost:.3g}" for cost in costs)])
    yield from markdown(("configurations", "seeds", "s", "driver's MB", "resumed in s"), rows)


def command_table() -> Iterator[str]:
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


if __name__ == "__main__":
    tables = ["\n".join(table()) for table in (search_table, command_table)]
    print(header("ray"), *tables, sep="\n\n")
