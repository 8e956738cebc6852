"""Command `reproduce`, which repeats a published table or figure."""

import sys
import time
from typing import TYPE_CHECKING

import typer

from sclsearch.cli import options as o
from sclsearch.cli.options import repeat_options
from sclsearch.cli.output import print_json, write
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError, lookup
from sclsearch.papers.tables import Table, published_tables, select_cells
from sclsearch.reports.terminal import Terminal
from sclsearch.study.spec import RunOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sclsearch.papers.reproduce import PlannedCell


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
    """Repeat the experiments of a published table or figure and show our scores beside it.

    Options:
        table: Published table or figure, or `ls` to list all. Example: gunel/table-4.
        --cells: Cells by row, column and condition; repeatable. Default: all cells; those of a
            figure that suit --scale. Example: CE+SCL,20,SST-2.
        --model: Encoder: an alias, a folder or a hub name. Default: the encoder of the table or of
            --scale.
    """
    tables = published_tables()
    if table == "ls":
        _check_alone(context)
        write("".join(f"{name}\t{found.title}\n" for name, found in tables.items()))
        return
    found = lookup(tables, table, "table")
    from sclsearch.papers.reproduce import plan_cells

    options = repeat_options(resources, time_budget=time_budget)
    selected = select_cells(found, cells or (found.laptop if scale else ()))
    planned = plan_cells(
        found, selected, options, scale=scale, model=model, paraphrases=paraphrases
    )
    if planned and not any(one.spec for one in planned):
        reasons = {one.reason: f"{one.cell.name}: {one.reason}" for one in reversed(planned)}
        raise SclsearchError(
            "\n".join([f"{table}: no selected cell can be trained.", *reasons.values()])
        )
    if resources["dry_run"]:
        _show_costs(planned, as_json=resources["json_"])
    else:
        _train_and_show(found, planned, options, as_json=resources["json_"])


def _check_alone(context: typer.Context) -> None:
    for name in context.params:
        if name != "table" and o.given(context, name):
            raise SclsearchError(
                f"--{name.rstrip('_').replace('_', '-')}: has no effect on `ls`, which lists all "
                "tables. Leave it out."
            )


def _show_costs(planned: "Sequence[PlannedCell]", *, as_json: bool) -> None:
    from sclsearch.papers.reproduce import cost_of, distinct_studies
    from sclsearch.papers.terminal import show_costs

    costs = [(one, cost_of(one)) for one in distinct_studies(planned)]
    if as_json:
        without = [{"cell": one.cell, "reason": one.reason} for one in planned if one.reason]
        studies = [
            {"cell": one.cell, "task": one.spec and one.spec.task, "note": one.note, **cost}
            for one, cost in costs
        ]
        print_json({"studies": studies, "not_reproduced": without})
    else:
        show_costs(Terminal(), costs, planned)
    if all("reason" in cost for _, cost in costs):
        sys.exit(INCOMPLETE)


def _train_and_show(
    table: "Table", planned: "Sequence[PlannedCell]", options: RunOptions, *, as_json: bool
) -> None:
    from sclsearch.papers.reproduce import CellScore, compare_rows, reproduce_cell
    from sclsearch.papers.terminal import drawing_commands, show_scores

    progress = Terminal(stderr=True)
    seconds = float("inf") if options.time_budget is None else options.time_budget
    deadline = time.monotonic() + seconds
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
        pairs = compare_rows(scores)
        print_json({"table": table.name, "scores": scores, "pairs": pairs})
    else:
        show_scores(Terminal(), table, scores)
        write("".join(f"{one}\n" for one in drawing_commands(table, scores, options.storage)))
    if stopped:
        sys.exit(INTERRUPTED)
    wanted = [score for score, one in zip(scores, planned, strict=True) if one.spec is not None]
    incomplete = not wanted or any(None in (score.mean, *score.tests) for score in wanted)
    sys.exit(INCOMPLETE if incomplete else 0)
