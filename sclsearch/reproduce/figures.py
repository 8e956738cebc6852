"""Our figures of a published table's cells, from the run store, and what they say of each other."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report, report
from sclsearch.reproduce.base import Cell
from sclsearch.reproduce.plan import PlannedCell
from sclsearch.search.options import How
from sclsearch.search.plan import plan
from sclsearch.search.run import run
from sclsearch.selection.ranking import mean_std
from sclsearch.selection.significance import Comparison, compare, holm
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.tasks import load_task
from sclsearch.tasks.metrics import f1_by_class, value


@dataclass(frozen=True, slots=True)
class Figure:
    """A cell as it came out here.

    Attributes:
        cell: The published figure.
        mean: Ours, by the study's rule; None where there is none.
        std: Its sample standard deviation; None for fewer than two seeds.
        plain: Mean over all seeds that did not fail.
        tests: Figure of each replicate of the winner; None where it failed.
        seeds: Replicates.
        study: The study's name.
        notes: What a reader of our figure must know.
        reason: Why there is none; empty if there is one.
    """

    cell: Cell
    mean: float | None = None
    std: float | None = None
    plain: float | None = None
    tests: tuple[float | None, ...] = ()
    seeds: int = 0
    study: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows of a table on one task under one condition.

    Attributes:
        ours: The row that is compared.
        base: The row it is compared with, the first of the table.
        comparison: Of their test figures, paired by replicate.
        adjusted: The p-value adjusted for all comparisons of the table (Holm).
    """

    ours: Cell
    base: Cell
    comparison: Comparison
    adjusted: float


@dataclass(frozen=True, slots=True)
class Work:
    """What a study would still cost.

    Attributes:
        study: Its name; empty where it cannot be planned.
        seed_runs: In total.
        missing: Those that the run store lacks.
        seconds: What the missing ones may take, one after the other; None if nothing is known.
        reason: Why it cannot be planned; empty if it can.
    """

    study: str = ""
    seed_runs: int = 0
    missing: int = 0
    seconds: float | None = None
    reason: str = ""


def work_of(one: PlannedCell) -> Work:
    """Returns what a cell's study would cost, judged by stored seed runs of the same method."""
    if one.what is None:
        return Work(reason=one.reason)
    try:
        found = plan(one.what, one.how)
    except SclsearchError as error:
        return Work(reason=str(error).partition("\n")[0])
    missing = found.seed_runs - found.stored
    each = _usual_seconds(one.how.storage, str(one.what.method), found.model[0])
    seconds = 0.0 if not missing else None if each is None else missing * each
    return Work(found.study, found.seed_runs, missing, seconds)


def make(one: PlannedCell, console: Console) -> Figure:
    """Returns a cell's figure; trains the seed runs that the store lacks."""
    if one.what is None:
        return Figure(one.cell, reason=one.reason)
    try:
        done = run(one.what, one.how, console)
    except SclsearchError as error:
        return Figure(one.cell, reason=str(error).partition("\n")[0])
    return _figure(one, report(done.storage, done.name, None, done.seeds, done.configs))


def pairs(figures: Sequence[Figure]) -> list[Pair]:
    """Returns each row against the first, on each task under each condition."""
    made = [figure for figure in figures if figure.mean is not None]
    found = []
    for _, group in groupby(sorted(made, key=_place), key=_place):
        base, *others = group
        found += [(other, base, compare(other.tests, base.tests)) for other in others]
    adjusted = holm([comparison.p for *_, comparison in found])
    return [
        Pair(ours.cell, base.cell, comparison, p)
        for (ours, base, comparison), p in zip(found, adjusted, strict=True)
    ]


def _place(figure: Figure) -> tuple[str, str]:
    return figure.cell.block.name, figure.cell.column.name


def _figure(one: PlannedCell, found: Report) -> Figure:
    winner = found.winner
    if winner is None:
        return Figure(one.cell, study=found.study, reason="its study is not finished")
    store = RunStore(one.how.storage)
    of_class = _class_number(one.cell, one.how)
    tests = [
        None if run is None or run.failure else _measured(one.cell, run, of_class)
        for run in (store.get(seed.key) for seed in winner.seeds)
    ]
    there = [test for test in tests if test is not None]
    counted = [test for position in winner.reported if (test := tests[position]) is not None]
    if not counted:
        return Figure(one.cell, study=found.study, reason="all its seed runs failed")
    mean, std = mean_std(counted)
    return Figure(
        cell=one.cell,
        mean=mean,
        std=std,
        plain=mean_std(there)[0],
        tests=tuple(tests),
        seeds=len(tests),
        study=found.study,
        notes=(*_differences(one.cell, found), *found.notes),
    )


def _differences(cell: Cell, found: Report) -> Iterator[str]:
    if found.model != cell.model:
        yield f"model {found.model}, not {cell.model}"
    if cell.row.note:
        yield f"{cell.row.name}: {cell.row.note}"


def _measured(cell: Cell, run: SeedRun, of_class: int | None) -> float:
    if of_class is None:
        return value(cell.column.metric, run.test)
    counts = np.array(run.test["confusion"], np.int64)
    return float(f1_by_class(counts)[of_class])


def _class_number(cell: Cell, how: How) -> int | None:
    """Returns the class whose F1 is meant: the rarer or the more frequent of the training rows."""
    if cell.column.of_class is None or cell.column.task is None:
        return None
    y = load_task(cell.column.task, how.data_dir).splits["train"].y
    counts = np.bincount(y.astype(np.int64))
    return int(counts.argmin() if cell.column.of_class == "minority" else counts.argmax())


def _usual_seconds(storage: Path, method: str, model: str) -> float | None:
    """Returns the median seconds of stored seed runs of a method on an encoder."""
    store = RunStore(storage)
    found = [
        run.seconds
        for path in store.folder.glob("*.json")
        if (run := store.get(path.stem)) is not None
        and run.failure is None
        and run.identity["method"] == method
        and run.origin.get("model") == model
    ]
    return statistics.median(found) if found else None
