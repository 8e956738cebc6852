"""Growth of time and memory with rows, lengths, views, parallel seed runs and search size.

    python -m benchmarks.scale [--axes rows length …] [--model minilm]

`rows`, `length`, `views` and `trials` measure the engine: each line in a separate process on one
core, or on the GPU, with rows of random tokens of one length. `views` trains on 100 texts with and
without gradient caching. `search` runs driver, scheduler and store with workers that train nothing.
`command` is the timeline of a short `sclsearch train` with one seed run at a time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import cores, header, markdown, peak_memory
from benchmarks.points import Run
from sclsearch.encoders import savings
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import model_folder
from sclsearch.methods import method_class
from sclsearch.methods.base import Training
from sclsearch.protocols.base import Rows, Splits, all_seeds
from sclsearch.search.prepare import prepare_study
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import storage_folder
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.base import Task
from sclsearch.training.data import Tokens
from sclsearch.training.engine import train
from sclsearch.training.spec import SeedRunSpec

FIRST, LAST = 1000, 4000
"""Token ids are drawn from these."""
HELD_OUT = 64
"""Validation rows, and test rows; each is read once."""
NEVER = 10**12
SCORED, EVALUATIONS = 500, 10
"""Rows and evaluations of a stored result of the usual size."""
CODE = Path(__file__).parents[1]


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
    limit: int = savings.LIMIT
    model: str = "minilm"

    @property
    def data(self) -> Run:
        """Input of the engine."""
        folder = model_folder(self.model)
        kind: Any = method_class(self.method)
        return Run(
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
            {
                "train": _random(self.rows, self.length),
                "validation": _random(HELD_OUT, self.length),
                "test": _random(HELD_OUT, self.length),
            },
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
        pad=0,
    )


def measured(load: Load) -> tuple[float, float]:
    """Return the seconds of a seed run and the peak memory of its process in MB."""
    torch.set_num_threads(1)
    savings.LIMIT = load.limit
    data = load.data
    load_encoder(data.spec.model, load.model)  # a worker reads it only once
    return train(*data).seconds, peak_memory()


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


def no_training(config: Mapping[str, Any], context: Any) -> None:
    """Store a result of the usual size and report it, as a worker does after its training."""
    from ray import tune

    fields, replicate = json.loads(config["fields"]), config["replicate"]
    spec = context.study.seed_run_spec(fields, replicate, context.splits[replicate])
    right = int(spec.key[:8], 16) % SCORED
    counts = {"confusion": [[right, SCORED - right], [0, 0]]}
    run = SeedRun(
        key=spec.key,
        identity=spec.identity,
        origin={**context.origin, "configuration": config["configuration"], "replicate": replicate},
        evaluations=tuple(
            {"epoch": float(number), "update": number, "loss": {"ce": 0.7}, "validation": counts}
            for number in range(EVALUATIONS)
        ),
        test=counts,
        predictions={"validation": [0.0] * SCORED, "test": [1.0] * SCORED},
    )
    RunStore(context.storage).put(run)
    tune.report({"key": spec.key, "out_of_memory": ""})


def search_cost(configurations: int, seeds: int, model: str) -> tuple[float, float, float]:
    """Return a search's seconds, the memory that its driver gains in MB, and seconds to resume."""
    import ray

    from sclsearch.ray_backend import tuner
    from sclsearch.ray_backend.start import started_ray
    from sclsearch.search.run import worker_context

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    tuner.seed_run_trial = no_training  # type: ignore[attr-defined]
    spec = StudySpec(method="scl", task="demo", model=model, train_size=16)
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        options = RunOptions(
            storage=Path(name),
            configs=configurations,
            seeds=seeds,
            race="off",
            gpus_per_trial=0,
            concurrency=2,
            tracking="none",
        )
        scheduler = prepare_study(spec, options)
        scheduler.begin()
        with started_ray(None) as scratch:
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
            seconds, memory = time.monotonic() - begun, peak_memory() - before
        begun = time.monotonic()
        prepare_study(spec, options).refill()
        return seconds, memory, time.monotonic() - begun


def search_axis(model: str) -> Iterator[str]:
    """Yield the table of the driver's cost by numbers of configurations and seeds."""
    rows = []
    for configurations, seeds in ((10, 10), (40, 10), (10, 40), (100, 10)):
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
            found = pool.submit(search_cost, configurations, seeds, model).result()
        costs = (*found, 1000 * found[0] / (configurations * seeds))
        rows.append([str(configurations), str(seeds), *(f"{value:.3g}" for value in costs)])
    yield from markdown(
        ("configurations", "seeds", "s", "driver's MB", "resumed in s", "ms a seed run"), rows
    )


def timeline(model: str, seeds: int = 8) -> list[float]:
    """Return seconds of a short command: see the columns of `command_axis`."""
    options = ("--method", "ce", "--task", "demo", "--train-size", "40", "--set", "epochs=1")
    with tempfile.TemporaryDirectory(prefix="scale-") as storage:
        run = (
            *(sys.executable, "-m", "sclsearch", "train", *options, "--model", model),
            *("--seeds", str(seeds), "--concurrency", "1", "--storage", storage),
        )

        def seconds() -> float:
            begun = time.time()
            # Ray's workers import from the folder in which the command runs.
            environment = {**os.environ, "PYTHONPATH": str(CODE), "PYTHONSAFEPATH": "1"}
            subprocess.run(run, env=environment, cwd=storage, capture_output=True, check=True)
            return time.time() - begun

        begun, whole = time.time(), seconds()
        runs = sorted(RunStore(storage_folder(storage, make=False)).all(), key=lambda r: r.started)
        gaps = [after.started - before.started - before.seconds for before, after in pairwise(runs)]
        last = runs[-1].started + runs[-1].seconds - begun
        return [runs[0].started - begun, statistics.median(gaps), whole - last, whole, seconds()]


def command_axis(model: str) -> Iterator[str]:
    """Yield the timeline of a short command."""
    columns = ("first seed run", "between two", "after the last", "in all", "again")
    yield from markdown(
        [f"{name}, s" for name in columns], [[f"{value:.2f}" for value in timeline(model)]]
    )


AXES: Mapping[str, Callable[[str], Iterator[str]]] = {
    "rows": rows_axis,
    "length": length_axis,
    "views": views_axis,
    "trials": trials_axis,
    "search": search_axis,
    "command": command_axis,
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
