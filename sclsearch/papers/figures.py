"""Reproduced values of a published table's cells, and the cost of those still missing."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from sclsearch.encoders.models import base_model
from sclsearch.errors import SclsearchError
from sclsearch.papers.base import Cell
from sclsearch.papers.plan import PlannedCell
from sclsearch.papers.transfer import known_what, on_exported
from sclsearch.reports.report import Report, report
from sclsearch.search.estimate import Estimate
from sclsearch.search.plan import plan
from sclsearch.search.run import run
from sclsearch.selection.ranking import mean_std
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.spec import RunOptions
from sclsearch.tasks import load_task
from sclsearch.tasks.metrics import f1_by_class, value

OUT_OF_TIME = "the time budget is used; the same command goes on"


@dataclass(frozen=True, slots=True)
class Figure:
    """Reproduced value of a table cell.

    Attributes:
        cell: The published cell.
        mean: Our score, aggregated by the study's rule; None if there is none.
        std: Sample standard deviation; None for fewer than two seeds.
        plain: Mean over all seeds that did not fail.
        rule: Rule that selects the seeds to count.
        tests: Test score of each replicate of the winner; None if it failed.
        subsets: SHA-256 of each replicate's training rows.
        seeds: Number of replicates.
        study: Name of the study.
        notes: Remarks for readers of our score.
        reason: Reason for a missing score; empty if there is one.
    """

    cell: Cell
    mean: float | None = None
    std: float | None = None
    plain: float | None = None
    rule: str = ""
    tests: tuple[float | None, ...] = ()
    subsets: tuple[str, ...] = ()
    seeds: int = 0
    study: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """Remaining cost of a study.

    Attributes:
        study: Name of the study; empty if it cannot be planned, or while its encoder is not
            trained.
        seed_runs: Total number of seed runs.
        missing: Seed runs that the run store lacks.
        time: Estimated time of the missing ones; None if it cannot be planned.
        reason: Reason why it cannot be planned; empty if it can.
    """

    study: str = ""
    seed_runs: int = 0
    missing: int = 0
    time: Estimate | None = None
    reason: str = ""


def work_of(one: PlannedCell, finished: Callable[[], Sequence[SeedRun]]) -> Work:
    """Return the remaining cost of a cell's study.

    Args:
        one: The cell.
        finished: Returns finished seed runs, for the time estimate.
    """
    if one.spec is None:
        return Work(reason=one.reason)
    try:
        spec = known_what(one)
        if spec is not None:
            found = plan(spec, one.options, finished)
            return Work(found.study, found.seed_runs, found.missing, found.time)
        # The encoder is not trained yet, so no stored seed run uses it.
        with TemporaryDirectory() as empty:
            found = plan(one.spec, replace(one.options, storage=Path(empty)), finished)
            return Work("", found.seed_runs, found.missing, found.time)
    except SclsearchError as error:
        return Work(reason=_first_line(error))


def make(one: PlannedCell, console: Console, deadline: float = math.inf) -> Figure:
    """Return a cell's reproduced value; train the seed runs that the store lacks.

    Args:
        one: The cell.
        console: Console for the progress.
        deadline: Time by `time.monotonic` after which no seed run starts.

    Raises:
        KeyboardInterrupt: The run was stopped; the same call resumes it.
    """
    if one.spec is None:
        return Figure(one.cell, reason=one.reason)
    try:
        found = _trained(one.first or one, console, deadline)
        if one.first is not None and isinstance(found, Report):
            return make(on_exported(one, found), console, deadline)
    except SclsearchError as error:
        return Figure(one.cell, reason=_first_line(error))
    return figure_of(one, found) if isinstance(found, Report) else found


def _trained(one: PlannedCell, console: Console, deadline: float) -> Report | Figure:
    """Return the report of a cell's study, or a `Figure` with the reason why it is incomplete."""
    if one.spec is None:
        return Figure(one.cell, reason=one.reason)
    options = one.options
    if deadline < math.inf:
        options = replace(options, time_budget=max(deadline - time.monotonic(), 0.0))
        if not options.time_budget and plan(one.spec, options).missing:
            return Figure(one.cell, reason=OUT_OF_TIME)
    done = run(one.spec, options, console)
    if done.ending == "interrupted":
        raise KeyboardInterrupt
    if done.ending != "complete":
        return Figure(one.cell, study=done.name, reason=OUT_OF_TIME)
    return report(done.storage, done.name, done.rule, done.seeds, done.configs)


def figure_of(one: PlannedCell, found: Report) -> Figure:
    """Return a cell's reproduced value, given the report of its study."""
    winner = found.winner
    if winner is None:
        return Figure(one.cell, study=found.study, reason="its study is not finished")
    of_class = _class_number(one.cell, one.options)
    tests = [
        None if run is None or run.failure else _measured(one.cell, run, of_class)
        for run in RunStore(one.options.storage).get_all(seed.key for seed in winner.seeds)
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
        subsets=tuple(rows["train"] for rows in found.rows),
        seeds=len(tests),
        study=found.study,
        notes=(*_differences(one, found), *found.notes),
    )


def _differences(one: PlannedCell, found: Report) -> Iterator[str]:
    cell, base = one.cell, base_model(found.model_place)
    if base != cell.model:
        yield f"model {base}, not {cell.model}"
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


def _class_number(cell: Cell, options: RunOptions) -> int | None:
    """Return the class whose F1 is printed: the rarest or the most frequent in the training rows.

    Among equally frequent classes the first is the rarest, as in the imbalanced protocols.
    """
    if cell.column.of_class is None or cell.column.task is None:
        return None
    y = load_task(cell.column.task, options.data_dir).splits["train"].y
    order = np.argsort(np.bincount(y.astype(np.int64)), kind="stable")
    return int(order[0 if cell.column.of_class == "minority" else -1])


def _first_line(error: SclsearchError) -> str:
    return str(error).partition("\n")[0]
