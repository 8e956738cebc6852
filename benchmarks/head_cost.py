"""Cost of the driver of a search: memory, time, Ray's snapshots, resumption.

    python -m benchmarks.head_cost [--seed-runs 250 500 1000] [--seeds 10] [--model minilm]

Runs searcher, scheduler and store with workers that only store results of the usual size. Each row
is a separate study in a separate process.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ray
from ray import tune

from benchmarks.machine import MEGA, header, markdown
from sclsearch.ray_backend import tuner
from sclsearch.ray_backend.start import started_ray
from sclsearch.ray_backend.worker import WorkerContext
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import worker_context
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.spec import RunOptions, StudySpec

ROWS, EVALUATIONS = 500, 10


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one study.

    Attributes:
        seed_runs: Number of seed runs.
        per_second: Seed runs per second, with two workers.
        per_cpu_second: Seed runs per CPU second of the driver.
        memory: Growth of the driver's memory in MB.
        snapshot: Size of Ray's largest snapshot in MB.
        resume: Seconds in which a new driver reads the store.
    """

    seed_runs: int
    per_second: float
    per_cpu_second: float
    memory: float
    snapshot: float
    resume: float


def no_training(config: Mapping[str, Any], context: WorkerContext) -> None:
    """Store scores and report, as `seed_run_trial` does after its training."""
    fields, replicate = json.loads(config["fields"]), config["replicate"]
    seed_run_spec = context.study.seed_run_spec(fields, replicate, context.splits[replicate])
    right = int(seed_run_spec.key[:8], 16) % ROWS
    counts = {"confusion": [[right, ROWS - right], [0, 0]]}
    losses = {"ce": 0.6931471805599453, "scl": 2.0794415416798357}
    run = SeedRun(
        key=seed_run_spec.key,
        identity=seed_run_spec.identity,
        origin={**context.origin, "configuration": config["configuration"], "replicate": replicate},
        evaluations=tuple(
            {"epoch": float(number), "update": number, "loss": losses, "validation": counts}
            for number in range(EVALUATIONS)
        ),
        test=counts,
        predictions={"validation": [0.0] * ROWS, "test": [1.0] * ROWS},
    )
    RunStore(context.storage).put(run)
    tune.report({"key": seed_run_spec.key, "out_of_memory": ""})


def cost(seed_runs: int, seeds: int, model: str) -> Cost:
    """Return the cost of a study with a number of seed runs."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    tuner.seed_run_trial = no_training  # type: ignore[attr-defined]
    spec = StudySpec(method="scl", task="demo", model=model, train_size=16)
    with tempfile.TemporaryDirectory(prefix="head-") as name:
        options = RunOptions(
            storage=Path(name) / "storage",
            configs=seed_runs // seeds,
            seeds=seeds,
            rule="mean",
            gpus_per_trial=0,
            concurrency=2,
            tracking="none",
        )
        prepared = prepare_study(spec, options)
        with started_ray(None) as scratch, snapshots(Path(name)) as sizes:
            before, begun, used = _memory("VmRSS"), time.monotonic(), time.process_time()
            done = run_out(prepared, options, scratch)
            seconds, used = time.monotonic() - begun, time.process_time() - used
            memory = _memory("VmHWM") - before
        begun = time.monotonic()
        scheduler = prepare_study(spec, options)
        scheduler.refill()
        resume = time.monotonic() - begun
    assert scheduler.complete
    return Cost(done, done / seconds, done / used, memory / MEGA, max(sizes) / MEGA, resume)


def run_out(prepared: Scheduler, options: RunOptions, scratch: Path) -> int:
    """Run a study to its end; return its number of seed runs."""
    prepared.begin()
    scheduler = replace(prepared)
    scheduler.refill()
    context = worker_context(prepared)
    tuner.fit(
        scheduler, context, options, scratch=scratch, gpus=0, concurrency=2, tick=lambda *_: None
    )
    assert scheduler.complete
    return len(scheduler.state.seed_runs)


@contextmanager
def snapshots(folder: Path) -> Iterator[list[int]]:
    """Yield the sizes of Ray's snapshots, written below a folder while the body runs."""
    sizes, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            for path in folder.glob("sclsearch-ray-*/*/experiment_state-*.json"):
                with suppress(FileNotFoundError):
                    sizes.append(path.stat().st_size)

    thread = threading.Thread(target=watch)
    thread.start()
    tempfile.tempdir = str(folder)
    try:
        yield sizes
    finally:
        tempfile.tempdir = None
        over.set()
        thread.join()


def _memory(name: str) -> int:
    """Return this process's current memory (`VmRSS`) or peak memory (`VmHWM`) in bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


def main() -> None:
    """Measure each size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed-runs", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--model", default="minilm")
    given = parser.parse_args()
    columns = ("seed runs", "a second", "a CPU second", "memory MB", "snapshot MB", "resume s")
    rows = []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for seed_runs in given.seed_runs:
            found = pool.submit(cost, seed_runs, given.seeds, given.model).result()
            rows.append([f"{value:.4g}" for value in astuple(found)])
    print(header("ray", "optuna"), *markdown(columns, rows), sep="\n")


if __name__ == "__main__":
    main()
