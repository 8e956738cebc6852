"""Test scores of two rules for checkpoints with equal validation scores.

    python -m benchmarks.checkpoints record DATA [--seeds 30]
    python -m benchmarks.checkpoints > benchmarks/checkpoints.md

The first command trains `scl` with MiniLM on few rows, tests every evaluated checkpoint, and adds
the results to `checkpoints.csv`; run it again to go on. The second command makes the page.
"""

import argparse
import csv
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.machine import markdown
from benchmarks.starting_points import TICKETS, texts
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask

RECORDS = Path(__file__).with_suffix(".csv")
SIZES = {"sst2": 14, "dbpedia": 3}
"""Rows of each class."""
TEST_ROWS = 100
BINS = 10
RULES = ("first", "loss")
MEASURES = ("accuracy", "log_loss", "calibration_error")
INTRODUCTION = """\
# Which checkpoint of a seed run to keep

With few validation rows many evaluations of a seed run have the best validation score. `first`
keeps the first of them. `loss` keeps the one with the lowest validation loss, and of equal ones the
last: this is what sclsearch does. `scl` with MiniLM and the start of the practical space; each seed
draws a fifth of the rows for validation; 100 test rows, of the tickets 40. The calibration error
has 10 bins of equal width. Recorded on one NVIDIA H200, in bfloat16.
"""


def tasks(data: Path, folder: Path) -> dict[str, CustomTask]:
    """Write the data sets as a user's own files; return the tasks by name."""
    found = {"tickets": CustomTask(TICKETS, "text", "team")}
    for name, train, test in texts(data):
        if name in SIZES:
            frames = [pd.DataFrame(rows, columns=["text", "label"]) for rows in (train, test)]
            few = frames[0].groupby("label").sample(SIZES[name], random_state=0)
            paths = [folder / f"{name}{part}.csv" for part in ("", "-test")]
            few.to_csv(paths[0], index=False)
            frames[1].sample(TEST_ROWS, random_state=0).to_csv(paths[1], index=False)
            found[f"{name} {len(few)}"] = CustomTask(paths[0], "text", "label", test=paths[1])
    return found


def measures(y: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float32]) -> list[float]:
    """Return accuracy, log loss and expected calibration error of test rows."""
    right = probabilities.argmax(1) == y
    true = probabilities[np.arange(len(y)), y].astype(np.float64)
    sure = probabilities.max(1)
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [
        abs(right[bins == n].mean() - sure[bins == n].mean()) * (bins == n).mean()
        for n in np.unique(bins)
    ]
    return [float(right.mean()), float(-np.log(true.clip(1e-12)).mean()), float(sum(gaps))]


def seed_run(task: CustomTask, seed: int, gpu: bool) -> Iterator[tuple[str, int, list[float]]]:
    """Train one seed; yield the rule, the kept update and the measures of its checkpoint."""
    from sclsearch.tasks.metrics import value
    from sclsearch.training.engine import train
    from sclsearch.training.evaluation import evaluate_rows

    spec = StudySpec(task=task, model="minilm", searched=False)
    study = resolve(spec, RunOptions(gpus_per_trial=int(gpu)))
    splits = study.splits(seed)
    run = study.seed_run_spec({}, seed, splits)
    tokens = study.tokenized([splits])[run.training.max_length]
    right: list[int] = []
    tested: dict[int, npt.NDArray[np.float32]] = {}

    def and_test(spec: Any, tokens: Any, rows: Any, *model: Any) -> Any:
        found = evaluate_rows(spec, tokens, rows, *model)
        if rows is splits.validation:
            right.append(sum(np.array(found[1]) == labels(splits.validation)))
            if right[-1] == max(right):  # a rule may keep it
                test = evaluate_rows(spec, tokens, splits.test, *model)
                tested[len(right) - 1] = test[2]
        return found

    def labels(rows: Any) -> npt.NDArray[np.int64]:
        return np.asarray(study.data.splits[rows.split].y[rows.index], np.int64)

    with patch("sclsearch.training.engine.evaluate_rows", and_test):
        result = train(run, tokens)
    evaluations: list[Any] = result.evaluations
    scores = [value("accuracy", one["validation"]) for one in evaluations]
    y = labels(splits.test)
    for rule, kept in zip(RULES, (scores.index(max(scores)), result.kept), strict=True):
        yield rule, evaluations[kept]["update"], measures(y, tested[kept])


def record(data: Path, seeds: int, workers: int, gpu: bool) -> None:
    """Add the seed runs that the file lacks."""
    done = pd.read_csv(RECORDS)[["data", "seed"]].values.tolist() if RECORDS.exists() else []
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(workers, get_context("spawn")) as pool,
    ):
        waiting = [
            pool.submit(tested, name, task, seed, gpu)
            for seed, (name, task) in product(range(seeds), tasks(data, Path(folder)).items())
            if [name, seed] not in done
        ]
        for job in as_completed(waiting):
            with RECORDS.open("a", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if not file.tell():
                    writer.writerow(["data", "seed", "rule", "update", *MEASURES])
                writer.writerows(job.result())
            print(job.result(), flush=True)


def tested(name: str, task: CustomTask, seed: int, gpu: bool) -> list[list[Any]]:
    """Return the rows of a seed run, trained on one thread."""
    import torch

    torch.set_num_threads(1)
    return [[name, seed, rule, kept, *rest] for rule, kept, rest in seed_run(task, seed, gpu)]


def page(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    means = frame.groupby(["data", "rule"])[["update", *MEASURES]].mean()
    seeds = frame.groupby("data")["seed"].nunique()
    rows = [
        (
            *(row["data"], f"`{row['rule']}`", str(seeds[row["data"]]), f"{row['update']:.0f}"),
            *(f"{100 * row['accuracy']:.1f}", f"{row['log_loss']:.3f}"),
            f"{row['calibration_error']:.3f}",
        )
        for _, row in means.reset_index().iterrows()
    ]
    names = ("data", "rule", "seeds", "kept update", "accuracy", "log loss", "calibration error")
    yield from markdown(names, rows)


def main() -> None:
    """Record seed runs, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command")
    recording = commands.add_parser("record", help="train the seed runs")
    recording.add_argument("data", type=Path)
    recording.add_argument("--seeds", type=int, default=30)
    recording.add_argument("--workers", type=int, default=1, help="seed runs at a time")
    recording.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    if options.command == "record":
        record(options.data, options.seeds, options.workers, options.gpu)
    else:
        print("\n".join(page(pd.read_csv(RECORDS))))


if __name__ == "__main__":
    main()
