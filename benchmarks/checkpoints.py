"""Test scores of two rules for checkpoints with equal validation scores.

    python -m benchmarks.checkpoints --record DATA
    python -m benchmarks.checkpoints > benchmarks/checkpoints.md

The first command trains `scl` with MiniLM on few rows, tests every evaluated checkpoint, and adds
the results to `checkpoints.csv`; run it again to resume. The second command prints the page.
"""

import argparse
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.machine import markdown
from benchmarks.starting_points import TICKETS, custom_task, texts
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask

RECORDS = Path(__file__).with_suffix(".csv")
SIZES = {"sst2": 14, "dbpedia": 3}
"""Rows of each class."""
SEEDS = 30
COLUMNS = ["data", "seed", "rule", "update", "accuracy", "log_loss", "calibration_error"]
INTRODUCTION = """\
# Which checkpoint of a seed run to keep

With few validation rows many evaluations of a seed run have the best validation score. `first`
keeps the first of them. `loss` keeps the one with the lowest validation loss, and of equal ones the
last: this is what sclsearch does. `scl` with MiniLM and the start of the practical space; each seed
draws a fifth of the rows for validation; 100 test rows, of the tickets 40. The calibration error
has 10 bins of equal width. Recorded on one NVIDIA H200, in bfloat16.
"""


def tasks(data: Path, folder: Path) -> dict[str, CustomTask]:
    """Return the tasks by name."""
    found = {"tickets": CustomTask(TICKETS, "text", "team")}
    sources = texts(data)
    for name, size in SIZES.items():
        train, test = sources[name]
        few = train.groupby("label").sample(size, random_state=0)
        rows = test.sample(100, random_state=0)
        found[f"{name} {len(few)}"] = custom_task(folder, name, few, rows)
    return found


def measures(y: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float32]) -> list[float]:
    """Return accuracy, log loss and expected calibration error of test rows."""
    right = probabilities.argmax(1) == y
    true = probabilities[np.arange(len(y)), y].astype(np.float64)
    sure = probabilities.max(1)
    bins = np.minimum((sure * 10).astype(int), 9)
    gaps = [
        abs(right[bins == n].mean() - sure[bins == n].mean()) * (bins == n).mean()
        for n in np.unique(bins)
    ]
    return [float(right.mean()), float(-np.log(true.clip(1e-12)).mean()), float(sum(gaps))]


def seed_run(name: str, task: CustomTask, seed: int) -> list[list[Any]]:
    """Train one seed; return a row with the measures of the checkpoint that each rule keeps."""
    from sclsearch.tasks.metrics import value
    from sclsearch.training.engine import train
    from sclsearch.training.evaluation import evaluate_rows

    study = resolve(StudySpec(task=task, model="minilm", searched=False), RunOptions())
    splits = study.splits(seed)
    tested: list[npt.NDArray[np.float32]] = []

    def and_test(spec: Any, tokens: Any, rows: Any, *model: Any) -> Any:
        if rows is splits.validation:
            tested.append(evaluate_rows(spec, tokens, splits.test, *model)[2])
        return evaluate_rows(spec, tokens, rows, *model)

    with patch("sclsearch.training.engine.evaluate_rows", and_test):
        tokens = study.tokenized([splits])[study.lengths()[-1]]
        result = train(study.seed_run_spec({}, seed, splits), tokens)
    evaluations: list[Any] = result.evaluations
    scores = [value("accuracy", one["validation"]) for one in evaluations]
    y = np.asarray(splits.test.labels(study.data), np.int64)
    return [
        [name, seed, rule, evaluations[kept]["update"], *measures(y, tested[kept])]
        for rule, kept in (("first", scores.index(max(scores))), ("loss", result.kept))
    ]


def record(data: Path) -> None:
    """Add the seed runs that the file lacks, trained on one thread or the GPU."""
    import torch

    torch.set_num_threads(1)
    done = pd.read_csv(RECORDS)[["data", "seed"]].values.tolist() if RECORDS.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for seed, (name, task) in product(range(SEEDS), tasks(data, Path(folder)).items()):
            if [name, seed] not in done:
                rows = pd.DataFrame(seed_run(name, task, seed), columns=COLUMNS)
                rows.to_csv(RECORDS, mode="a", header=not RECORDS.exists(), index=False)
                print(rows, flush=True)


def page(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    grouped = frame.groupby(["data", "rule"])
    means = grouped[COLUMNS[3:]].mean().assign(seeds=grouped.size()).reset_index()
    rows = (
        (
            *(row["data"], f"`{row['rule']}`", str(row["seeds"]), f"{row['update']:.0f}"),
            *(f"{100 * row['accuracy']:.1f}", f"{row['log_loss']:.3f}"),
            f"{row['calibration_error']:.3f}",
        )
        for _, row in means.iterrows()
    )
    names = ("data", "rule", "seeds", "kept update", "accuracy", "log loss", "calibration error")
    yield from markdown(names, rows)


def main() -> None:
    """Record seed runs, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, metavar="DATA", help="train the seed runs")
    options = parser.parse_args()
    if options.record:
        record(options.record)
    else:
        print("\n".join(page(pd.read_csv(RECORDS))))


if __name__ == "__main__":
    main()
