"""Best of six configurations of each method with MiniLM: benchmarks/starting_points.md.

    python -m benchmarks.starting_points > benchmarks/starting_points.md
    python -m benchmarks.starting_points --storage evidence-storage > benchmarks/starting_points.md
    python -m benchmarks.starting_points --storage evidence-storage --commands | bash

The first command makes the page from the seed runs in `benchmarks/evidence/`. The second one writes
these files from a storage first, and the third one trains them.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import sclsearch
from benchmarks.evidence import (
    DEFAULT_STORAGE,
    FOLDER,
    MODEL,
    Side,
    exported,
    percent,
    searched,
    searched_scores,
    stored,
)
from benchmarks.machine import markdown
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

The best of six configurations by the mean validation accuracy on two tasks, each with {SIZE}
examples and 10 seeds. The six are a grid of three learning rates, the same for all methods, and two
values of one more hyperparameter; the spaces are in `benchmarks/evidence/`. Seed runs that the race
(risk {RISK:g}) skipped are estimated. The spaces for MiniLM begin with a learning rate of 0.0001.

The seeds of these searches are not those of the verdicts in [evidence.md](evidence.md).

"""
COLUMNS = ("method", "best of six", *TASKS, "mean", "second best", "mean")


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


def ranked(method: str) -> list[tuple[dict[str, object], npt.NDArray[np.float64]]]:
    """Return each configuration with its validation means by task, the best first.

    The result is empty if a search is not stored.
    """
    found: dict[str, tuple[dict[str, object], list[float]]] = {}
    for task in TASKS:
        frame = stored(Side(method, task, SIZE).study(MODEL))
        if frame is None:
            return []
        search = frame[frame["kind"] == "search"]
        points = search.drop_duplicates("configuration").sort_values("configuration")
        means = searched_scores(frame).validation.mean(axis=1)
        for values, mean in zip(points[searched(frame)].to_dict("records"), means, strict=True):
            own = {str(name): value for name, value in values.items()}
            found.setdefault(settings(own), (own, []))[1].append(mean)
    each = [(values, np.array(means)) for values, means in found.values()]
    return sorted(each, key=lambda one: one[1].mean(), reverse=True)


def table() -> Iterator[list[str]]:
    """Yield the cells of each method of which both searches are stored."""
    for method in METHODS:
        if found := ranked(method):
            (best, scores), (second, its), *_ = found
            each = [percent(one) for one in (*scores, scores.mean())]
            yield [f"`{method}`", settings(best), *each, settings(second), percent(its.mean())]


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
        print(INTRODUCTION, *markdown(COLUMNS, table()), sep="\n")
    except SclsearchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
