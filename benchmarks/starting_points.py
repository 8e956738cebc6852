"""Six configurations of each method with MiniLM on two tasks: benchmarks/starting_points.md.

    python -m benchmarks.starting_points > benchmarks/starting_points.md
    python -m benchmarks.starting_points --storage evidence-storage > benchmarks/starting_points.md
    python -m benchmarks.starting_points --storage evidence-storage --commands | bash

The first command makes the page from the seed runs in `benchmarks/evidence/`. The second one writes
these files from a storage first, and the third one trains them.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

import sclsearch
from benchmarks.evidence.records import exported, searched, stored
from benchmarks.evidence.results import searched_scores
from benchmarks.evidence.rows import DEFAULT_STORAGE, FOLDER, MODEL, Side
from benchmarks.machine import markdown, percent
from sclsearch.canonical import settings
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import study_names

METHODS = ("ce", "scl", "lacon", "supcl-seq")
TASKS = ("sst2", "demo")
SIZE = 100
RISK = 0.05
"""Risk of the race; that of an unfinished search is higher."""
INTRODUCTION = f"""\
# Starting points with MiniLM

Validation accuracy in percent, the mean of {" and ".join(TASKS)} with {SIZE} examples and 10 seeds
each, by learning rate and by one more hyperparameter of the method. Seed runs that the race (risk
{RISK:g}) skipped are estimated. The search spaces are in `benchmarks/evidence/`. The seeds are not
those of the verdicts in [evidence.md](evidence.md).

The last row is the mean over the methods, each with the better of its two values. The spaces for
MiniLM begin with the learning rate that is best there, so that all methods begin with the same
one, and with the better value of the method's other hyperparameter (bold).

"""


def searches(storage: Path) -> Iterator[list[str]]:
    """Yield the commands of the searches."""
    for method in METHODS:
        for task in TASKS:
            yield Side(method, task, SIZE).search(MODEL, storage)


def export(storage: Path) -> None:
    """Write the seed runs of the finished searches that the page of evidence does not have."""
    names = study_names(storage_folder(storage, make=False))
    for method in METHODS:
        for task in TASKS:
            study = Side(method, task, SIZE).study(MODEL)
            path = FOLDER / f"{study}.csv"
            if study not in names or (task == "sst2" and path.exists()):
                continue
            report = sclsearch.select(study, storage=storage)
            if report.winner is not None and report.risk <= RISK:
                frame = exported(report, "search")
                frame.convert_dtypes().to_csv(path, index=False, lineterminator="\n")


def accuracies(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the mean accuracy of searches by the other hyperparameter and the learning rate."""
    each = []
    for frame in frames:
        points = frame[frame["kind"] == "search"].drop_duplicates("configuration")
        accuracy = pd.Series(searched_scores(frame).validation.mean(axis=1))
        points = points.set_index("configuration").assign(accuracy=accuracy)
        other, rate = sorted(searched(frame), key="learning_rate".__eq__)
        each.append(points.pivot_table("accuracy", other, rate))
    return pd.concat(each).groupby(level=0).mean()


def starting_points() -> dict[str, dict[str, object]]:
    """Return the learning rate, equal for all methods, and the other value of each method."""
    found = stored_accuracies()
    rate = mean_of_methods(found).idxmax()
    return {
        method: {"learning_rate": rate, str(one.index.name): one[rate].idxmax()}
        for method, one in found.items()
    }


def stored_accuracies() -> dict[str, pd.DataFrame]:
    """Return `accuracies` of each method of which both searches are stored."""
    found = {}
    for method in METHODS:
        frames = [stored(Side(method, task, SIZE).study(MODEL)) for task in TASKS]
        if all(frame is not None for frame in frames):
            found[method] = accuracies([frame for frame in frames if frame is not None])
    return found


def mean_of_methods(found: Mapping[str, pd.DataFrame]) -> "pd.Series[float]":
    """Return the mean accuracy at each learning rate, each method with its better value."""
    return pd.DataFrame([one.max() for one in found.values()]).mean()


def table() -> Iterator[list[str]]:
    """Yield the cells of each value of each method, then those of the mean."""
    found, starts = stored_accuracies(), starting_points()
    for method, one in found.items():
        for value, row in one.iterrows():
            own = {str(one.index.name): value}
            first = [starts[method] == {"learning_rate": rate, **own} for rate in row.index]
            scores = [
                f"**{percent(score)}**" if start else percent(score)
                for score, start in zip(row, first, strict=True)
            ]
            yield [f"`{method}`", settings(own), *scores]
    yield ["mean", "", *map(percent, mean_of_methods(found))]


def main() -> None:
    """Print the page, or the commands of its searches."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--storage", type=Path, help="writes the seed runs of this storage first")
    parser.add_argument("--commands", action="store_true", help="print the commands")
    options = parser.parse_args()
    if options.commands:
        print(*map(shlex.join, searches(options.storage or DEFAULT_STORAGE)), sep="\n")
        return
    try:
        if options.storage:
            export(options.storage)
        rates = [
            settings({"learning_rate": rate}) for rate in mean_of_methods(stored_accuracies()).index
        ]
        print(INTRODUCTION, *markdown(("method", "other value", *rates), table()), sep="\n")
    except SclsearchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
