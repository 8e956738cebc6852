"""The `reproduce` command, which repeats the experiments of a published table."""

import sys
import time
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.cli.specified import repeat_options
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError, lookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sclsearch.papers.base import Table
    from sclsearch.papers.plan import PlannedCell
    from sclsearch.store.storage import Storage


def reproduce(
    context: typer.Context,
    resources: o.ResourceOptions,
    table: Annotated[
        str, typer.Argument(help="Published table, or `ls` to list all. Example: gunel/table-4.")
    ],
    cells: Annotated[
        list[str] | None,
        typer.Option(
            help="Cells by row, column and condition; repeatable. Default: all cells. Example: "
            "CE+SCL,20,SST-2."
        ),
    ] = None,
    scale: o.Scale = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Encoder: an alias, a folder or a hub name. Default: the encoder of the table or "
            "of --scale."
        ),
    ] = None,
    paraphrases: o.Paraphrases = None,
    time_budget: o.TimeBudget = None,
) -> None:
    """Repeat the experiments of a published table and show our scores beside the published ones."""
    from sclsearch.papers.tables import published_tables

    tables = published_tables()
    if table == "ls":
        _check_alone(context)
        sys.stdout.writelines(f"{name}\t{found.title}\n" for name, found in tables.items())
        return
    found, seconds = lookup(tables, table, "table"), o.parse_seconds(time_budget, "--time-budget")
    from sclsearch.papers.chosen import chosen_cells
    from sclsearch.papers.plan import Wishes, plan_cells

    options = repeat_options(resources)
    wishes = Wishes(options=options, scale=scale, model=model, paraphrases=paraphrases)
    planned = plan_cells(found, chosen_cells(found, cells or ()), wishes)
    if resources.dry_run:
        _tell_work(planned, options.storage, as_json=resources.json_)
    else:
        _make(found, planned, seconds, as_json=resources.json_)


def _check_alone(context: typer.Context) -> None:
    """Raise SclsearchError for options beside `ls`, which ignores all of them."""
    for name in context.params:
        if name != "table" and o.given(context, name):
            raise SclsearchError(
                f"--{name.rstrip('_').replace('_', '-')}: has no effect on `ls`, which lists all "
                "tables. Leave it out."
            )


def _tell_work(planned: "Sequence[PlannedCell]", storage: "Storage", *, as_json: bool) -> None:
    from rich.console import Console

    from sclsearch.cli.output import print_json
    from sclsearch.papers.figures import work_of
    from sclsearch.papers.plan import studies_of
    from sclsearch.papers.terminal import show_work
    from sclsearch.search.estimate import finished

    stored = cache(partial(finished, storage))
    works = [(one, work_of(one, stored)) for one in studies_of(planned)]
    if as_json:
        without = [{"cell": one.cell, "reason": one.reason} for one in planned if one.reason]
        works_with_tasks = [
            {"cell": one.cell, "task": one.spec and one.spec.task, **asdict(work)}
            for one, work in works
        ]
        print_json({"works": works_with_tasks, "not_made": without})
    else:
        show_work(Console(), works, planned)


def _make(
    table: "Table", planned: "Sequence[PlannedCell]", seconds: float | None, *, as_json: bool
) -> None:
    from rich.console import Console

    from sclsearch.cli.output import print_json
    from sclsearch.papers.figures import Figure, make
    from sclsearch.papers.pairs import pairs
    from sclsearch.papers.terminal import show_figures

    progress = Console(stderr=True)
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    figures: list[Figure] = []
    stopped = False
    try:
        for one in planned:
            if one.spec is not None:
                cell = one.cell
                named = f"{cell.block.name}, {cell.row.name}, {cell.column.name}"
                progress.print(named, style="dim", markup=False, soft_wrap=True)
            figures.append(make(one, progress, deadline))
    except KeyboardInterrupt:
        progress.print(STOPPED)
        stopped = True
    if as_json:
        # Convert the published value to our unit: a table may use percent.
        rows = [{**asdict(one), "published": table.as_metric(one.cell)} for one in figures]
        print_json({"table": table.name, "figures": rows, "pairs": pairs(figures)})
    else:
        show_figures(Console(), table, figures)
    if stopped:
        sys.exit(INTERRUPTED)
    wanted = [figure for figure, one in zip(figures, planned, strict=True) if one.spec is not None]
    incomplete = not wanted or any(None in (figure.mean, *figure.tests) for figure in wanted)
    sys.exit(INCOMPLETE if incomplete else 0)
