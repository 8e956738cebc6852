"""Overhead between two seed runs, with warm and with cold workers.

    python -m benchmarks.trial_start [--seed-runs 8] [--model minilm]

Each row is the time from the end of a seed run's training to the start of the next one: report,
decision, start of the next trial, and for a cold worker a new process with its imports. One seed
run at a time, on the embedded task.
"""

import argparse
import statistics
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from benchmarks.machine import header, markdown
from sclsearch.ray_backend.start import started_ray
from sclsearch.ray_backend.tuner import fit
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import worker_context
from sclsearch.study.spec import RunOptions, StudySpec


def gaps(spec: StudySpec, options: RunOptions, scratch: Path, *, reuse_actors: bool) -> list[float]:
    """Return the seconds between one seed run's training and the next."""
    prepared = prepare_study(spec, options)
    prepared.begin()
    scheduler = replace(prepared)
    scheduler.refill()
    context = worker_context(prepared)
    fit(
        scheduler,
        context,
        options,
        scratch=scratch,
        gpus=0,
        concurrency=1,
        tick=lambda *_: None,
        reuse_actors=reuse_actors,
    )
    runs = sorted(scheduler.state.seed_runs.values(), key=lambda run: run.started)
    return [after.started - (before.started + before.seconds) for before, after in pairwise(runs)]


def main() -> None:
    """Measure both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed-runs", type=int, default=8)
    parser.add_argument("--model", default="minilm")
    arguments = parser.parse_args()
    spec = StudySpec(
        method="ce",
        task="demo",
        model=arguments.model,
        train_size=16,
        settings={"epochs": 1, "max_length": 16},
        searched=False,
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder, started_ray(None) as scratch:
        for name, reuse in (("cold", False), ("warm", True)):
            options = RunOptions(
                storage=Path(folder) / name,
                seeds=arguments.seed_runs,
                gpus_per_trial=0,
                tracking="none",
            )
            found = gaps(spec, options, scratch, reuse_actors=reuse)
            rows.append((name, *(f"{f(found):.2f}" for f in (statistics.median, min, max))))
    columns = ("workers", "median s", "min s", "max s")
    print(header("ray"), *markdown(columns, rows), sep="\n")


if __name__ == "__main__":
    main()
