"""Reproduction of published tables: training of cells, comparison of rows, and remaining cost."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console

from sclsearch.encoders.models import base_model
from sclsearch.errors import SclsearchError, first_line
from sclsearch.papers.plan import PlannedCell
from sclsearch.papers.tables import Cell
from sclsearch.reports.export import ExportOptions, describe_winner, export
from sclsearch.reports.export_record import ExportRecord
from sclsearch.reports.report import Report, report
from sclsearch.search.plan import Estimate, plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run_prepared
from sclsearch.search.scheduler import Scheduler
from sclsearch.selection.rules import mean_std, parse_rule
from sclsearch.selection.significance import Comparison, compare, holm
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import study_names
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import load_task
from sclsearch.tasks.metrics import METRICS, f1_by_class, value

OUT_OF_TIME = "the time budget is used; the same command goes on"


@dataclass(frozen=True, slots=True)
class CellScore:
    """Reproduced score of a table cell.

    Attributes:
        mean: Our score, aggregated by the study's rule; None if there is none.
        std: Sample standard deviation; None for fewer than two seeds.
        plain: Mean over all seeds that did not fail.
        tests: Test score of each replicate of the winner; None if it failed.
        subsets: SHA-256 of each replicate's training rows.
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
class StudyCost:
    """Remaining cost of a study.

    Attributes:
        study: Name of the study; empty if it cannot be planned, or while its encoder is not
            trained.
        missing: Seed runs that the run store lacks.
        time: Estimated time of the missing ones; None if it cannot be planned.
        reason: Reason why it cannot be planned; empty if it can.
    """

    study: str = ""
    seed_runs: int = 0
    missing: int = 0
    time: Estimate | None = None
    reason: str = ""


def cost_of(one: PlannedCell, finished: Callable[[], Sequence[SeedRun]]) -> StudyCost:
    """Return the remaining cost of a cell's study; `finished` returns finished seed runs."""
    if one.spec is None:
        return StudyCost(reason=one.reason)
    try:
        folder = _stored_encoder(one.first) if one.first else None
        if folder is None and one.first is not None:
            # The encoder is not trained yet, so no stored seed run uses it.
            with TemporaryDirectory() as empty:
                found = _plan(one.spec, replace(one.options, storage=Path(empty)), finished)
                return StudyCost("", found["seed_runs"], found["missing"], found["time"])
        spec = one.spec if folder is None else replace(one.spec, model=str(folder))
        found = _plan(spec, one.options, finished)
        return StudyCost(found["study"], found["seed_runs"], found["missing"], found["time"])
    except SclsearchError as error:
        return StudyCost(reason=first_line(error))


def _prepared(spec: StudySpec, options: RunOptions, *, dry: bool = False) -> Scheduler:
    return replace(prepare_study(spec, options, dry=dry), weights=False)


def _plan(
    spec: StudySpec, options: RunOptions, finished: Callable[[], Sequence[SeedRun]] | None = None
) -> dict[str, Any]:
    return plan_prepared(_prepared(spec, options, dry=True), finished)


def reproduce_cell(one: PlannedCell, console: Console, deadline: float = math.inf) -> CellScore:
    """Return a cell's reproduced score; train the seed runs that the store lacks.

    No seed run starts after `deadline`, a time by `time.monotonic`.
    """
    try:
        if one.first is not None and one.spec is not None:
            found = _trained(one.first, console, deadline)
            if isinstance(found, CellScore):
                return found
            spec, note = _on_fine_tuned_encoder(one.spec, one.options, found)
            one = replace(one, spec=spec, note=note, first=None)
        found = _trained(one, console, deadline)
    except SclsearchError as error:
        return CellScore(one.cell, reason=first_line(error))
    return _score(one, found) if isinstance(found, Report) else found


def _trained(one: PlannedCell, console: Console, deadline: float) -> Report | CellScore:
    """Return the report of a cell's study, or the reason why it is incomplete."""
    if one.spec is None:
        return CellScore(one.cell, reason=one.reason)
    options = one.options
    if deadline < math.inf:
        options = replace(options, time_budget=max(deadline - time.monotonic(), 0.0))
        if not options.time_budget and _plan(one.spec, options)["missing"]:
            return CellScore(one.cell, reason=OUT_OF_TIME)
    done = run_prepared(_prepared(one.spec, options), console)
    if done.ending == "interrupted":
        raise KeyboardInterrupt
    if done.ending != "complete":
        return CellScore(one.cell, study=done.name, reason=OUT_OF_TIME)
    return done.report()


def _score(one: PlannedCell, found: Report) -> CellScore:
    winner = found.winner
    if winner is None:
        reason = "all its seed runs failed" if found.failures else "its study is not finished"
        return CellScore(one.cell, study=found.study, reason=reason)
    of_class = _class_number(one.cell, one.options)
    tests = [
        None if run is None or run.failure else _test_score(one.cell, run, of_class)
        for run in RunStore(one.options.storage).get_all(seed.key for seed in winner.seeds)
    ]
    reported = [test for position in winner.reported if (test := tests[position]) is not None]
    if not reported:
        return CellScore(one.cell, study=found.study, reason="all its seed runs failed")
    mean, std = mean_std(reported)
    return CellScore(
        cell=one.cell,
        mean=mean,
        std=std,
        plain=mean_std([test for test in tests if test is not None])[0],
        rule=found.rule,
        tests=tuple(tests),
        subsets=tuple(rows["train"] for rows in found.rows),
        seeds=len(tests),
        study=found.study,
        notes=(*_departures(one, found), *(_named(one.cell, note) for note in found.notes)),
    )


def _named(cell: Cell, note: str) -> str:
    """Return a note, in which a warning about the winner names the cell."""
    return f"{cell.name}: {note}" if note.startswith("warning: ") else note


def _departures(one: PlannedCell, found: Report) -> Iterator[str]:
    """Yield remarks on how our score differs from the published one."""
    cell, base = one.cell, base_model(found.model_place)
    if base != cell.model:
        yield f"model {base}, not {cell.model}"
    if len(found.configurations) > 1:
        yield f"ours is the best of {len(found.configurations)} configurations by validation"
    if cell.row.note:
        yield f"{cell.row.name}: {cell.row.note}"
    if one.note:
        yield one.note


def _test_score(cell: Cell, run: SeedRun, of_class: int | None) -> float:
    if of_class is None:
        return value(cell.column.metric, run.test)
    return float(f1_by_class(np.array(run.test["confusion"], np.int64))[of_class])


def _class_number(cell: Cell, options: RunOptions) -> int | None:
    """Return the class whose F1 is printed: the rarest or the most frequent in the training rows.

    Among equally frequent classes the first is the rarest, as in the imbalanced protocols.
    """
    if cell.column.of_class is None or cell.column.task is None:
        return None
    y = load_task(cell.column.task, options.data_dir).splits["train"].y
    order = np.argsort(np.bincount(y.astype(np.int64)), kind="stable")
    return int(order[0 if cell.column.of_class == "minority" else -1])


def _on_fine_tuned_encoder(
    spec: StudySpec, options: RunOptions, found: Report
) -> tuple[StudySpec, str]:
    """Export the encoder of the first fine-tuning; return the study that uses it, and a note."""
    record = describe_winner(found)
    folder = _encoder_folder(options, record)
    if not folder.exists():
        export(found, storage_folder(options.storage), folder, ExportOptions(force=True))
    note = (
        f"encoder first fine-tuned on {record.task} by {record.method}: seed {record.replicate}, "
        f"the best of {record.seeds} by validation, {record.metric} {record.validation:.4f}"
    )
    return replace(spec, model=str(folder)), note


def _stored_encoder(first: PlannedCell) -> Path | None:
    """Return the folder of the encoder that a study fine-tuned, or None while it is missing."""
    if first.spec is None:
        return None
    found = _plan(first.spec, first.options)
    storage = storage_folder(first.options.storage, make=False)
    study = found["study"]
    if found["stored"] < found["seed_runs"] or study not in study_names(storage):
        return None
    rule = parse_rule(found["rule"])
    done = report(storage, study, rule, found["seeds"], found["configurations"])
    folder = _encoder_folder(first.options, describe_winner(done))
    return folder if folder.exists() else None


def _encoder_folder(options: RunOptions, record: ExportRecord) -> Path:
    # In the storage, so that the workers of a cluster can read it; one folder per plan.
    storage = storage_folder(options.storage, make=False)
    return Path(storage) / "encoders" / f"{record.task}-{record.key[:12]}"


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Comparison of two rows of a table on one task under one condition.

    Attributes:
        base: The baseline, which is the first reproduced row there.
        comparison: Comparison of their test scores, paired by replicate.
        adjusted: p-value adjusted for all comparisons of the table (Holm).
    """

    ours: Cell
    base: Cell
    comparison: Comparison
    adjusted: float


def compare_rows(scores: Sequence[CellScore]) -> list[RowComparison]:
    """Return the comparison of each row with the first reproduced one, by task and condition.

    Pairs without a replicate that finished in both are omitted.
    """
    places: dict[tuple[str, str], list[CellScore]] = {}
    for score in scores:
        if score.mean is not None:
            place = score.cell.block.name, score.cell.column.name
            places.setdefault(place, []).append(score)
    compared: dict[tuple[str, ...], tuple[CellScore, CellScore, Comparison]] = {}
    for base, *others in places.values():
        for other in others:
            if any(None not in both for both in zip(other.tests, base.tests, strict=True)):
                # If several conditions share one study, they count as one comparison in the
                # adjustment.
                key = other.cell.row.name, other.cell.column.name, other.study, base.study
                largest = METRICS[base.cell.column.metric].span
                comparison = compare(other.tests, base.tests, base.subsets, largest=largest)
                compared.setdefault(key, (other, base, comparison))
    found = compared.values()
    adjusted = holm([comparison.p for *_, comparison in found])
    return [
        RowComparison(ours.cell, base.cell, comparison, p)
        for (ours, base, comparison), p in zip(found, adjusted, strict=True)
    ]
