"""Our figures of a published table's cells, from the run store, and what they say of each other."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report, report
from sclsearch.reproduce.base import Cell
from sclsearch.reproduce.plan import PlannedCell
from sclsearch.search.estimate import Estimate
from sclsearch.search.options import How
from sclsearch.search.plan import plan
from sclsearch.search.run import run
from sclsearch.selection.ranking import mean_std
from sclsearch.selection.rules import parse_rule
from sclsearch.selection.significance import Comparison, compare, holm
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.tasks import load_task
from sclsearch.tasks.metrics import f1_by_class, value

OUT_OF_TIME = "the time budget is used; the same command goes on"


@dataclass(frozen=True, slots=True)
class Figure:
    """A cell as it came out here.

    Attributes:
        cell: The published figure.
        mean: Ours, by the study's rule; None where there is none.
        std: Its sample standard deviation; None for fewer than two seeds.
        plain: Mean over all seeds that did not fail.
        rule: Which of the seeds count.
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
    rule: str = ""
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
        time: How long the missing ones may take; None where it cannot be planned.
        reason: Why it cannot be planned; empty if it can.
    """

    study: str = ""
    seed_runs: int = 0
    missing: int = 0
    time: Estimate | None = None
    reason: str = ""


def work_of(one: PlannedCell, finished: Sequence[SeedRun]) -> Work:
    """Returns what a cell's study would cost.

    Args:
        one: The cell.
        finished: Seed runs that tell how long it may take.
    """
    if one.what is None:
        return Work(reason=one.reason)
    try:
        found = plan(one.what, one.how, finished)
    except SclsearchError as error:
        return Work(reason=_first_line(error))
    return Work(found.study, found.seed_runs, found.missing, found.time)


def make(one: PlannedCell, console: Console, deadline: float = math.inf) -> Figure:
    """Returns a cell's figure; trains the seed runs that the store lacks.

    Args:
        one: The cell.
        console: Where progress is shown.
        deadline: When no further seed run starts, by `time.monotonic`.

    Raises:
        KeyboardInterrupt: It was stopped; the same call goes on.
    """
    if one.what is None:
        return Figure(one.cell, reason=one.reason)
    how = one.how
    try:
        if deadline < math.inf:
            how = replace(how, time_budget=max(deadline - time.monotonic(), 0.0))
            if not how.time_budget and plan(one.what, how).missing:
                return Figure(one.cell, reason=OUT_OF_TIME)
        done = run(one.what, how, console)
    except SclsearchError as error:
        return Figure(one.cell, reason=_first_line(error))
    if done.ending == "interrupted":
        raise KeyboardInterrupt
    if done.ending != "complete":
        return Figure(one.cell, study=done.name, reason=OUT_OF_TIME)
    rule = parse_rule(how.rule) if how.rule else None
    return figure_of(one, report(done.storage, done.name, rule, done.seeds, done.configs))


def pairs(figures: Sequence[Figure]) -> list[Pair]:
    """Returns each row against the first, on each task under each condition.

    A pair of which no replicate finished in both says nothing and is left out.
    """
    places: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        if figure.mean is not None:
            place = figure.cell.block.name, figure.cell.column.name
            places.setdefault(place, []).append(figure)
    compared: dict[tuple[str, ...], tuple[Figure, Figure, Comparison]] = {}
    for base, *others in places.values():
        for other in others:
            if any(None not in both for both in zip(other.tests, base.tests, strict=True)):
                # Where conditions are one figure there is one comparison to adjust for.
                own = other.cell.row.name, other.cell.column.name, other.study, base.study
                compared.setdefault(own, (other, base, compare(other.tests, base.tests)))
    found = compared.values()
    adjusted = holm([comparison.p for *_, comparison in found])
    return [
        Pair(ours.cell, base.cell, comparison, p)
        for (ours, base, comparison), p in zip(found, adjusted, strict=True)
    ]


def figure_of(one: PlannedCell, found: Report) -> Figure:
    """Returns a cell's figure out of the report of its study."""
    winner = found.winner
    if winner is None:
        return Figure(one.cell, study=found.study, reason="its study is not finished")
    of_class = _class_number(one.cell, one.how)
    tests = [
        None if run is None or run.failure else _measured(one.cell, run, of_class)
        for run in RunStore(one.how.storage).get_all(seed.key for seed in winner.seeds)
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
        rule=found.rule,
        tests=tuple(tests),
        seeds=len(tests),
        study=found.study,
        notes=(*_differences(one, found), *found.notes),
    )


def _differences(one: PlannedCell, found: Report) -> Iterator[str]:
    cell = one.cell
    if found.model != cell.model:
        yield f"model {found.model}, not {cell.model}"
    if len(found.configurations) > 1:
        yield f"ours is the best of {len(found.configurations)} configurations by validation"
    if cell.row.note:
        yield f"{cell.row.name}: {cell.row.note}"
    if one.note:
        yield one.note


def _measured(cell: Cell, run: SeedRun, of_class: int | None) -> float:
    if of_class is None:
        return value(cell.column.metric, run.test)
    counts = np.array(run.test["confusion"], np.int64)
    return float(f1_by_class(counts)[of_class])


def _class_number(cell: Cell, how: How) -> int | None:
    """Returns the class whose F1 is meant: the rarer or the more frequent of the training rows.

    Among equally frequent ones the first is the rarer, as where rows are drawn out of balance.
    """
    if cell.column.of_class is None or cell.column.task is None:
        return None
    y = load_task(cell.column.task, how.data_dir).splits["train"].y
    order = np.argsort(np.bincount(y.astype(np.int64)), kind="stable")
    return int(order[0 if cell.column.of_class == "minority" else -1])


def _first_line(error: SclsearchError) -> str:
    return str(error).partition("\n")[0]
