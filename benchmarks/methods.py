"""Scores of every method and two baselines on three tasks with 100 labeled examples.

    python -m benchmarks.methods --data-dir FOLDER > methods.md

The folder has SST-2/ of GLUE and dbpedia_csv/; `demo` comes with sclsearch. Each cell is a
`sclsearch train` at the starting point of the method's space for MiniLM. Finished seed runs are
read from the storage, so the same command resumes.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import sclsearch
from benchmarks.machine import header, markdown, percent
from sclsearch.methods import METHODS
from sclsearch.reports.report import ConfigurationLine

TASKS = ("sst2", "dbpedia", "demo")
SIZE, SEEDS, EPOCHS = 100, 3, 10
INTRODUCTION = f"""\
# Every method with {SIZE} labeled examples

Test accuracy of MiniLM in percent, mean ± std of {SEEDS} seeds, and seconds of a seed run on one
core. Each method is trained for {EPOCHS} epochs at the starting point of its space for MiniLM; all
have the same learning rate. `--scale laptop` validates on 200 rows and tests on up to 500.
So small a budget shows that the methods work, not which is best: [comparison.md](comparison.md).
"""


def report_of(method: str, task: str, data_dir: Path, storage: Path) -> sclsearch.Report:
    """Return the report of a method on a task; train the seed runs that are missing."""
    return sclsearch.train(
        method=method,
        task=task,
        train_size=SIZE,
        model="minilm",
        protocol="gunel-fewshot",
        scale="laptop",
        seeds=SEEDS,
        settings={"epochs": EPOCHS},
        rule="mean",
        data_dir=None if task == "demo" else data_dir,
        storage=str(storage),
        tracking="none",
    )


def rows(found: Sequence[Sequence[sclsearch.Report]]) -> Iterator[list[str]]:
    """Yield the rows of the table from the reports of each method, one per task."""
    for baselines in zip(*(report.baselines for report in found[0]), strict=True):
        cells = [cell for line in baselines for cell in (accuracy(line), "")]
        yield [baselines[0].origin, *cells]
    for reports in found:
        row = [f"`{reports[0].method}`"]
        for report in reports:
            line = report.configurations[0]
            row += [accuracy(line), f"{mean(seed.seconds for seed in line.seeds):.0f}"]
        yield row


def accuracy(line: ConfigurationLine) -> str:
    """Return mean and standard deviation of the test scores."""
    assert line.plain is not None, f"{line.origin}: no seed run has a test score"
    score, spread = line.plain
    return f"{percent(score)} ± {percent(spread)}" if spread else percent(score)


def main() -> None:
    """Train what is missing and print the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="the tasks' folders")
    parser.add_argument("--storage", type=Path, default=Path("benchmark-storage"))
    given = parser.parse_args()
    found = [
        [report_of(method, task, given.data_dir, given.storage) for task in TASKS]
        for method in METHODS
    ]
    columns = ("method", *(column for task in TASKS for column in (task, "s")))
    print(INTRODUCTION, header("ray"), *markdown(columns, rows(found)), sep="\n")


if __name__ == "__main__":
    main()
