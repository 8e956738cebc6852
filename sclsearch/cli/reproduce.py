"""The `reproduce` command, which repeats the experiments of a published table."""

import sys
import time
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING

import typer

from sclsearch.cli import options as o
from sclsearch.cli.options import print_json, repeat_options
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError, lookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sclsearch.papers.reproduce import PlannedCell
    from sclsearch.papers.tables import Table
    from sclsearch.store.storage import Storage


def reproduce(
    context: typer.Context,
    resources: o.ResourceOptions,
    table: str,
    cells: list[str] | None = None,
    scale: o.Scale = None,
    model: str | None = None,
    paraphrases: o.Paraphrases = None,
    time_budget: o.TimeBudget = None,
) -> None:
    """Repeat the experiments of a published table and show our scores beside the published ones.

    Options:
        table: Published table, or `ls` to list all. Example: gunel/table-4.
        --cells: Cells by row, column and condition; repeatable. Default: all cells. Example:
            CE+SCL,20,SST-2.
        --model: Encoder: an alias, a folder or a hub name. Default: the encoder of the table or of
            --scale.
    """
    from sclsearch.papers.tables import published_tables

    tables = published_tables()
    if table == "ls":
        _check_alone(context)
        sys.stdout.writelines(f"{name}\t{found.title}\n" for name, found in tables.items())
        return
    found = lookup(tables, table, "table")
    from sclsearch.papers.reproduce import plan_cells
    from sclsearch.papers.tables import select_cells

    options = repeat_options(resources, time_budget=time_budget)
    selected = select_cells(found, cells or ())
    planned = plan_cells(
        found, selected, options, scale=scale, model=model, paraphrases=paraphrases
    )
    if planned and not any(one.spec for one in planned):
        reasons = {one.reason: f"{one.cell.name}: {one.reason}" for one in reversed(planned)}
        raise SclsearchError(
            "\n".join([f"{table}: no selected cell can be trained.", *reasons.values()])
        )
    if resources["dry_run"]:
        _tell_work(planned, options.storage, as_json=resources["json_"])
    else:
        _make(found, planned, options.time_budget, as_json=resources["json_"])


def _check_alone(context: typer.Context) -> None:
    for name in context.params:
        if name != "table" and o.given(context, name):
            raise SclsearchError(
                f"--{name.rstrip('_').replace('_', '-')}: has no effect on `ls`, which lists all "
                "tables. Leave it out."
            )


def _tell_work(planned: "Sequence[PlannedCell]", storage: "Storage", *, as_json: bool) -> None:
    from rich.console import Console

    from sclsearch.papers.reproduce import cost_of, distinct_studies
    from sclsearch.papers.terminal import show_costs
    from sclsearch.search.plan import finished

    stored = cache(partial(finished, storage))
    costs = [(one, cost_of(one, stored)) for one in distinct_studies(planned)]
    if as_json:
        without = [{"cell": one.cell, "reason": one.reason} for one in planned if one.reason]
        costs_with_tasks = [
            {"cell": one.cell, "task": one.spec and one.spec.task, **asdict(cost)}
            for one, cost in costs
        ]
        print_json({"works": costs_with_tasks, "not_made": without})
    else:
        show_costs(Console(), costs, planned)


def _make(
    table: "Table", planned: "Sequence[PlannedCell]", seconds: float | None, *, as_json: bool
) -> None:
    from rich.console import Console

    from sclsearch.papers.reproduce import CellScore, compare_rows, reproduce_cell
    from sclsearch.papers.terminal import show_scores

    progress = Console(stderr=True)
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    scores: list[CellScore] = []
    stopped = False
    try:
        for one in planned:
            if one.spec is not None:
                progress.print(one.cell.name, style="dim", markup=False, soft_wrap=True)
            scores.append(reproduce_cell(one, progress, deadline))
    except KeyboardInterrupt:
        progress.print(STOPPED)
        stopped = True
    if as_json:
        # Convert the published value to our unit: a table may use percent.
        rows = [{**asdict(one), "published": table.as_metric(one.cell)} for one in scores]
        print_json({"table": table.name, "figures": rows, "pairs": compare_rows(scores)})
    else:
        show_scores(Console(), table, scores)
    if stopped:
        sys.exit(INTERRUPTED)
    wanted = [score for score, one in zip(scores, planned, strict=True) if one.spec is not None]
    incomplete = not wanted or any(None in (score.mean, *score.tests) for score in wanted)
    sys.exit(INCOMPLETE if incomplete else 0)
