"""Every method on CoLA, RTE and SST-2 with 100 labeled examples: a table of test figures.

    python -m benchmarks.methods --data-dir glue > benchmarks/methods.md

MiniLM on one core a seed run, three replicates, each method at the `models: minilm` point of its
space but with the same number of updates. Finished seed runs are read from the storage folder, so
the command goes on where it was stopped; `--minutes` stops it in time.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from benchmarks.machine import header
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import field_types
from sclsearch.protocols.base import Splits
from sclsearch.protocols.variants import at_most
from sclsearch.ray_backend.worker import WorkerContext, attempt
from sclsearch.selection.rules import mean_std
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.study import Study
from sclsearch.study.tokenized import tokenized
from sclsearch.tasks.metrics import value
from sclsearch.training.spec import SeedRunSpec

TASKS = ("sst2", "cola", "rte")
REPLICATES, TRAIN, VALIDATION, TEST = 3, 100, 200, 500
# Epochs, of 7 updates of 16 texts; epochs of post-training, of 13 updates of 8; and updates from
# one evaluation to the next. The texts of RTE are four times as long.
LENGTHS = {"cola": (10, 6, 7), "sst2": (10, 6, 7), "rte": (6, 3, 4)}

Case = tuple[str, str, int]


@cache
def study_of(method: str, task: str, data_dir: Path) -> Study:
    """Return a method on a task at its point for MiniLM, with the updates of this table."""
    spec = StudySpec(
        method=method,
        task=task,
        model="minilm",
        protocol="gunel-fewshot",
        train_size=TRAIN,
        searched=False,
    )
    options = RunOptions(data_dir=data_dir, gpus_per_trial=0)
    epochs, post_epochs, every = LENGTHS[task]
    settings = {
        "batch_size": 16,
        "epochs": epochs,
        "post_batch_size": 8,
        "post_epochs": post_epochs,
    }
    known = field_types(method_class(method))
    own = {name: setting for name, setting in settings.items() if name in known}
    study = resolve(replace(spec, settings=own), options)
    return replace(study, protocol=replace(study.protocol, evaluate=every))


def limited_splits(study: Study, number: int) -> Splits:
    """Return the protocol's rows, of validation and test no more than the table says."""
    splits = study.splits(number)
    return replace(
        splits,
        validation=at_most(VALIDATION, splits.validation, study.data, "benchmark"),
        test=at_most(TEST, splits.test, study.data, "benchmark"),
    )


def seed_run_of(case: Case, data_dir: Path) -> tuple[Study, SeedRunSpec]:
    """Return the seed run of a method, a task and a replicate."""
    method, task, number = case
    study = study_of(method, task, data_dir)
    return study, study.seed_run_spec({}, number, limited_splits(study, number))


def train(job: tuple[Case, Path, Path, float]) -> Case | None:
    """Train and store a seed run; return it, or None if the time is over."""
    case, data_dir, storage, until = job
    if time.time() > until:
        return None
    torch.set_num_threads(1)
    study, seed_run_spec = seed_run_of(case, data_dir)
    context = WorkerContext(
        study=study,
        name="benchmark",
        storage=storage,
        tokens=tokenized(study, [seed_run_spec.splits]),
        splits={case[2]: seed_run_spec.splits},
        threads=1,
        origin={"benchmark": "methods"},
    )
    run, _ = attempt(seed_run_spec, context, 0)
    RunStore(storage).put(run)
    return case


def table(runs: dict[Case, SeedRun], data_dir: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    heads = [(task, study_of("ce", task, data_dir)) for task in TASKS]
    yield "| method | " + " | ".join(f"{task}, {s.metric} | s" for task, s in heads) + " | failed |"
    yield "|---|" + "---|" * (2 * len(TASKS) + 1)
    majority = [f"{_majority(study):.1f} | " for _, study in heads]
    yield "| majority class | " + " | ".join(majority) + " | |"
    for method in METHODS:
        cells, failed = [], 0
        for task, study in heads:
            found = [runs[case] for case in runs if case[:2] == (method, task)]
            done = [run for run in found if run.failure is None]
            failed += len(found) - len(done)
            cells.append(_cell(done, study.metric))
        yield f"| `{method}` | {' | '.join(cells)} | {failed} of {REPLICATES * len(TASKS)} |"


def _cell(runs: list[SeedRun], metric: str) -> str:
    if not runs:
        return "… | …"
    mean, std = mean_std([100 * value(metric, run.test) for run in runs])
    spread = "" if std is None else f" ± {std:.1f}"
    return f"{mean:.1f}{spread} | {sum(run.seconds for run in runs) / len(runs):.0f}"


def _majority(study: Study) -> float:
    labels = limited_splits(study, 0).test.labels(study.data)
    return 100 * max(float((labels == label).mean()) for label in set(labels.tolist()))


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="GLUE's TSV files")
    parser.add_argument("--storage", type=Path, default=Path("benchmark-storage"))
    parser.add_argument("--minutes", type=float, default=35.0, help="no seed run starts later")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    options = parser.parse_args()
    storage = options.storage.resolve()
    storage.mkdir(parents=True, exist_ok=True)
    store, until = RunStore(storage), time.time() + 60 * options.minutes
    cases = [(m, t, r) for t in TASKS for r in range(REPLICATES) for m in METHODS]
    wanted = [p for p in cases if p[0] in options.methods and p[1] in options.tasks]
    missing = [p for p in wanted if store.get(seed_run_of(p, options.data_dir)[1].key) is None]
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes) as pool:
        jobs = [(case, options.data_dir, storage, until) for case in missing]
        for case in filter(None, pool.imap_unordered(train, jobs)):
            print(*case, file=sys.stderr, flush=True)
    runs = {
        case: run
        for case in cases
        if (run := store.get(seed_run_of(case, options.data_dir)[1].key)) is not None
    }
    print(HEADER, header(), *table(runs, options.data_dir), sep="\n")
    print(f"{len(runs)} of {len(cases)} seed runs", file=sys.stderr)


HEADER = f"""# Every method with {TRAIN} labeled examples

MiniLM (`--model minilm`), {REPLICATES} replicates, mean ± std of the test figure in percent and
seconds of a seed run on one CPU core. Each method at the `models: minilm` point of its space, but
all with 70 updates of 16 texts in a stage and 78 of 8 in post-training (RTE, whose texts are long:
42 and 39), 10 evaluations on {VALIDATION} validation rows (RTE: 11), the best of them tested once
on up to {TEST} rows.
So small a budget says that the methods work, not which is best: all are far above the majority
class on SST-2, and 100 examples and a small encoder are not enough on CoLA and RTE. The seconds
were taken two seed runs at a time, on as many cores.
"""

if __name__ == "__main__":
    main()
