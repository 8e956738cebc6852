"""Command `simulate`: what a race would have saved in a finished study, and how often it errs."""

import os
from itertools import product
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.cli.options import SamplerName
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE

if TYPE_CHECKING:
    from rich.console import Console

    from sclsearch.search.simulate import Simulation


def simulate(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY|FILE.csv...",
            help="Studies whose seed runs are all stored, or tables of scores: columns "
            "`seed 0`, `seed 1`, … and one for each hyperparameter.",
        ),
    ],
    race: Annotated[
        str, typer.Option(help="Accepted risks, separated by commas; off trains all seeds.")
    ] = "0,0.05",
    rule: Annotated[
        str | None,
        typer.Option(
            help="Selection rules, separated by commas. Example: mean,top-3. Default: the "
            "study's; mean for a file.",
            show_default=False,
        ),
    ] = None,
    slots: Annotated[str, typer.Option(help="Seed runs at a time, separated by commas.")] = "2",
    sampler: Annotated[
        SamplerName, typer.Option(help="Sampler that chooses the configurations of the table.")
    ] = "random",
    configs: Annotated[
        int | None, typer.Option(help="Configurations of each search. Default: all.")
    ] = None,
    searches: Annotated[int, typer.Option(help="Searches of each kind.", min=1)] = 40,
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """Repeat finished searches with a race, in random orders, without training.

    Shows the share of the seed runs and of the time that a race needs, how often it ends with
    another winner, and the risk that it states.
    """
    from concurrent.futures import ProcessPoolExecutor
    from dataclasses import asdict

    from rich.console import Console

    from sclsearch.api import simulate as repeated
    from sclsearch.cli.output import print_json

    risks = [_risk(one) for one in race.split(",")]
    rules = [None] if rule is None else rule.split(",")
    numbers = [_slots(one) for one in slots.split(",")]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as executor:
        found = [
            repeated(
                name,
                rule=one,
                race=risk,
                sampler=sampler,
                configs=configs,
                slots=number,
                searches=searches,
                executor=executor,
                storage=storage,
            )
            for name, one, risk, number in product(tables, rules, risks, numbers)
        ]
    if json_:
        print_json({"simulations": [asdict(one) for one in found]})
        return
    _show(Console(), found)


def _show(console: "Console", found: "list[Simulation]") -> None:
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("table", overflow="fold", min_width=12)
    for heading in ("rule", "race", "slots"):
        shown.add_column(heading)
    for heading in ("seed runs", "time", "wrong", "stated", "regret"):
        shown.add_column(heading, justify="right")
    for one in found:
        shown.add_row(
            one.table,
            one.rule,
            "off" if one.race is None else f"{one.race:g}",
            str(one.slots),
            f"{one.seed_runs:.0%}",
            f"{one.time:.0%}",
            f"{one.wrong}/{one.searches}{'!' if one.understated else ' '}",
            f"{one.stated:.1%}",
            f"{100 * one.regret:.2f}",
        )
    console.print(shown)
    console.print(
        "seed runs, time: share of what all seeds take with as many slots; wrong:\n"
        "searches with another winner than all seeds give; stated: their mean risk;\n"
        "regret: points below the best score of the table, on average",
        style="dim",
    )
    if any(one.understated for one in found):
        console.print("!: wrong more often than the stated risk explains (95 %)", style="dim")


def _risk(text: str) -> float | None:
    if text == "off":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise SclsearchError(f"--race: must be off, or from 0 to below 1, got {text!r}.") from error


def _slots(text: str) -> int:
    if not text.isdecimal():
        raise SclsearchError(f"--slots: must be a whole number of at least 1, got {text!r}.")
    return int(text)
