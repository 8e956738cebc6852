"""Commands that do experiments again: reproduce, confirm and variance."""

import math
import sys
import time
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError, lookup
from sclsearch.store.places import DEFAULT_STORAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sclsearch.reproduce.base import Table
    from sclsearch.reproduce.plan import PlannedCell
    from sclsearch.search.options import How
    from sclsearch.store.places import Storage

MOST_RUNS = 1000
MEANS = (
    "data_dir",
    "tracking",
    "address",
    "cpus_per_trial",
    "gpus_per_trial",
    "concurrency",
    "retry_failed",
)

StudyName = Annotated[str, typer.Argument(help="A study: `sclsearch ls studies`.")]


def reproduce(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="A published table, gunel/table-4, or `ls`.")],
    cells: Annotated[
        list[str] | None,
        typer.Option(help="Rows, columns, conditions: CE+SCL,20,SST-2; repeatable. Default: all."),
    ] = None,
    scale: o.Scale = None,
    model: Annotated[
        str | None, typer.Option(help="Alias, folder or hub name. Default: the table's or scale's.")
    ] = None,
    paraphrases: o.Paraphrases = None,
    storage: o.Storage = DEFAULT_STORAGE,
    data_dir: o.DataDir = None,
    tracking: o.Tracking = None,
    address: o.Address = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
    time_budget: o.TimeBudget = None,
    trial_timeout: o.TrialTimeout = None,
    retry_failed: o.RetryFailed = False,
    dry_run: o.DryRun = False,
    json_: o.Json = False,
) -> None:
    """Trains a paper's table again and shows our figures beside the published ones."""
    from sclsearch.reproduce.tables import published_tables

    tables = published_tables()
    if table == "ls":
        _check_alone(context)
        sys.stdout.writelines(f"{name}\t{found.title}\n" for name, found in tables.items())
        return
    found, seconds = lookup(tables, table, "table"), o.seconds(time_budget, "--time-budget")
    from sclsearch.reproduce.chosen import chosen_cells
    from sclsearch.reproduce.plan import Wishes, plan_cells

    how = _how(locals())
    wishes = Wishes(how=how, scale=scale, model=model, paraphrases=paraphrases)
    planned = plan_cells(found, chosen_cells(found, cells or ()), wishes)
    if dry_run:
        _tell_work(planned, how.storage, as_json=json_)
    else:
        _make(found, planned, seconds, as_json=json_)


def _check_alone(context: typer.Context) -> None:
    """Refuses options where the tables are listed: none of them would count."""
    for name in context.params:
        if name != "table" and o.given(context, name):
            raise SclsearchError(
                f"--{name.rstrip('_').replace('_', '-')}: it must come with a table, but `ls` "
                "lists them all. Leave it out."
            )


def _tell_work(planned: "Sequence[PlannedCell]", storage: "Storage", *, as_json: bool) -> None:
    from rich.console import Console

    from sclsearch.cli.output import print_json
    from sclsearch.reproduce.figures import work_of
    from sclsearch.reproduce.plan import studies_of
    from sclsearch.reproduce.terminal import show_work
    from sclsearch.search.estimate import finished

    stored = cache(partial(finished, storage))
    works = [(one, work_of(one, stored)) for one in studies_of(planned)]
    if as_json:
        without = [{"cell": one.cell, "reason": one.reason} for one in planned if one.reason]
        told = [
            {"cell": one.cell, "task": one.what and one.what.task, **asdict(work)}
            for one, work in works
        ]
        print_json({"works": told, "not_made": without})
    else:
        show_work(Console(), works, planned)


def _make(
    table: "Table", planned: "Sequence[PlannedCell]", seconds: float | None, *, as_json: bool
) -> None:
    from rich.console import Console

    from sclsearch.cli.output import STOPPED, print_json
    from sclsearch.reproduce.figures import Figure, make
    from sclsearch.reproduce.pairs import pairs
    from sclsearch.reproduce.terminal import show_figures

    progress = Console(stderr=True)
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    figures: list[Figure] = []
    stopped = False
    try:
        for one in planned:
            if one.what is not None:
                cell = one.cell
                named = f"{cell.block.name}, {cell.row.name}, {cell.column.name}"
                progress.print(named, style="dim", markup=False, soft_wrap=True)
            figures.append(make(one, progress, deadline))
    except KeyboardInterrupt:
        progress.print(STOPPED)
        stopped = True
    if as_json:
        # The published value in our unit: a table may print percent.
        told = [{**asdict(one), "published": table.as_metric(one.cell)} for one in figures]
        print_json({"table": table.name, "figures": told, "pairs": pairs(figures)})
    else:
        show_figures(Console(), table, figures)
    if stopped:
        sys.exit(o.INTERRUPTED)
    wanted = [figure for figure, one in zip(figures, planned, strict=True) if one.what is not None]
    sys.exit(int(not wanted or any(None in (figure.mean, *figure.tests) for figure in wanted)))


def confirm(
    study: StudyName,
    seeds: Annotated[int, typer.Option(min=1, help="Fresh replicates.")] = 10,
    rule: o.StudyRule = None,
    storage: o.Storage = DEFAULT_STORAGE,
    data_dir: o.DataDir = None,
    tracking: o.Tracking = None,
    address: o.Address = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
    trial_timeout: o.TrialTimeout = None,
    retry_failed: o.RetryFailed = False,
    json_: o.Json = False,
) -> None:
    """Trains a study's winner on fresh seeds: choosing by the best of some flatters it."""
    from rich.console import Console

    from sclsearch.cli.output import print_json, stopping
    from sclsearch.reproduce.again import confirm as again
    from sclsearch.reproduce.terminal import show_confirmation

    how = _how(locals())
    progress = Console(stderr=True)
    with stopping(progress):
        found = again(study, seeds, how, progress)
    if json_:
        print_json(asdict(found))
    else:
        show_confirmation(Console(), found)
    sys.exit(int(found.fresh.winner is None or found.fresh.winner.failed > 0))


def variance(
    study: StudyName,
    subsets: Annotated[
        int, typer.Option(min=1, help="Training subsets, where a protocol draws them.")
    ] = 1,
    initialisations: Annotated[
        int, typer.Option(min=1, help="Initialisations of the new layers.")
    ] = 3,
    orders: Annotated[
        int, typer.Option(min=1, help="Data orders, each with noise of its own.")
    ] = 3,
    rule: o.StudyRule = None,
    storage: o.Storage = DEFAULT_STORAGE,
    data_dir: o.DataDir = None,
    tracking: o.Tracking = None,
    address: o.Address = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
    trial_timeout: o.TrialTimeout = None,
    retry_failed: o.RetryFailed = False,
    json_: o.Json = False,
) -> None:
    """Says how much of a winner's spread comes from subset, initialisation and data order."""
    from rich.console import Console

    from sclsearch.cli.output import print_json, stopping
    from sclsearch.reproduce.again import variance as again
    from sclsearch.reproduce.terminal import show_spread

    levels = {"subset": subsets, "initialisation": initialisations, "order": orders}
    _check_levels(levels)
    how = _how(locals())
    progress = Console(stderr=True)
    with stopping(progress):
        found = again(study, levels, how, progress)
    if json_:
        print_json(asdict(found))
    else:
        show_spread(Console(), study, found)


def _check_levels(levels: "Mapping[str, int]") -> None:
    where = ", ".join(f"--{source}s" for source in levels)
    runs = math.prod(levels.values())
    if runs > MOST_RUNS:
        raise SclsearchError(
            f"{where}: all their combinations are trained; there must be at most {MOST_RUNS}, but "
            f"there are {runs}. Give fewer."
        )
    if sum(count > 1 for count in levels.values()) < 2:
        raise SclsearchError(
            f"{where}: at least two must be 2 or more, but they are "
            f"{', '.join(map(str, levels.values()))}. One source alone cannot be told from chance."
        )


def _how(options: "Mapping[str, Any]") -> "How":
    """Returns where and with what it is trained; a study and its seeds are a command's own."""
    from sclsearch.search.options import How
    from sclsearch.store.places import storage_folder

    storage = storage_folder(options["storage"], make=False)
    given = {name: options[name] for name in MEANS}
    timeout = o.seconds(options["trial_timeout"], "--trial-timeout")
    return How(storage=storage, rule=options.get("rule"), trial_timeout=timeout, **given)
