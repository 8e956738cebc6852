"""Commands that do experiments again: reproduce, confirm and variance."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError, lookup

if TYPE_CHECKING:
    from sclsearch.search.options import How

StudyName = Annotated[str, typer.Argument(help="A study: `sclsearch ls studies`.")]
Levels = Annotated[int, typer.Option(min=1)]


def reproduce(
    table: Annotated[str, typer.Argument(help="A published table, gunel/table-4, or `ls`.")],
    cells: Annotated[
        list[str] | None,
        typer.Option(help="Rows, columns, conditions: CE+SCL,20,SST-2; repeatable. Default: all."),
    ] = None,
    scale: o.Scale = None,
    model: o.Model = None,
    paraphrases: o.Paraphrases = None,
    storage: o.Storage = o.STORAGE,
    data_dir: o.DataDir = None,
    tracking: o.Tracking = None,
    address: o.Address = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
    time_budget: o.TimeBudget = None,
    dry_run: o.DryRun = False,
    json_: o.Json = False,
) -> None:
    """Trains a paper's table again and shows our figures beside the published ones."""
    from rich.console import Console

    from sclsearch.reproduce.tables import published_tables

    tables = published_tables()
    if table == "ls":
        sys.stdout.writelines(f"{name}\t{found.title}\n" for name, found in tables.items())
        return
    found = lookup(tables, table, "table")
    from sclsearch.cli.output import print_json
    from sclsearch.reproduce.figures import make, work_of
    from sclsearch.reproduce.plan import Wishes, chosen_cells, plan_cells, studies_of
    from sclsearch.reproduce.terminal import show_figures, show_work
    from sclsearch.search.options import How

    how = How(
        storage=storage.expanduser().resolve(),
        data_dir=data_dir,
        tracking=tracking,
        address=address,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        concurrency=concurrency,
        time_budget=o.seconds(time_budget, "--time-budget"),
    )
    wishes = Wishes(how=how, scale=scale, model=model, paraphrases=paraphrases)
    planned = plan_cells(found, chosen_cells(found, cells or ()), wishes)
    if dry_run:
        show_work(Console(), [(one, work_of(one)) for one in studies_of(planned)], planned)
        return
    progress = Console(stderr=True)
    figures = []
    for one in planned:
        if one.what is not None:
            cell = one.cell
            progress.print(f"{cell.block.name}, {cell.row.name}, {cell.column.name}", style="dim")
        figures.append(make(one, progress))
    if json_:
        print_json(figures)
    else:
        show_figures(Console(), found, figures)
    if all(figure.mean is None for figure in figures):
        sys.exit(1)


def confirm(
    study: StudyName,
    seeds: Annotated[int, typer.Option(min=1, help="Fresh replicates.")] = 10,
    storage: o.Storage = o.STORAGE,
    data_dir: o.DataDir = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
) -> None:
    """Trains a study's winner on fresh seeds: choosing by the best of some flatters it."""
    from rich.console import Console

    from sclsearch.reproduce.again import confirm as again
    from sclsearch.reproduce.terminal import show_confirmation

    how = _how(storage, data_dir, cpus_per_trial, gpus_per_trial, concurrency)
    show_confirmation(Console(), again(study, seeds, how, Console(stderr=True)))


def variance(
    study: StudyName,
    subsets: Levels = 1,
    initialisations: Levels = 3,
    orders: Levels = 3,
    storage: o.Storage = o.STORAGE,
    data_dir: o.DataDir = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
) -> None:
    """Says how much of a winner's spread comes from subset, initialisation and data order."""
    from rich.console import Console

    from sclsearch.reproduce.again import variance as again
    from sclsearch.reproduce.terminal import show_spread

    levels = {"subset": subsets, "initialisation": initialisations, "order": orders}
    if subsets * initialisations * orders > 1000:
        raise SclsearchError(
            "--subsets, --initialisations, --orders: all their combinations are trained; there "
            f"must be at most 1000, but there are {subsets * initialisations * orders}."
        )
    how = _how(storage, data_dir, cpus_per_trial, gpus_per_trial, concurrency)
    show_spread(Console(), study, again(study, levels, how, Console(stderr=True)))


def _how(
    storage: Path,
    data_dir: Path | None,
    cpus: int,
    gpus: float | None,
    concurrency: int | None,
) -> "How":
    from sclsearch.search.options import How

    return How(
        storage=storage.expanduser().resolve(),
        data_dir=data_dir,
        cpus_per_trial=cpus,
        gpus_per_trial=gpus,
        concurrency=concurrency,
    )
