"""Commands that train a study's winner again: `confirm` and `variance`."""

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sclsearch.cli import options as o
from sclsearch.cli.spec import repeat_options
from sclsearch.errors import INCOMPLETE, SclsearchError

if TYPE_CHECKING:
    from sclsearch.study.spec import RunOptions

MOST_RUNS = 1000


def confirm(
    study: o.StudyName,
    resources: o.ResourceOptions,
    seeds: Annotated[int, typer.Option(min=1, help="Number of new seeds.")] = 10,
    rule: o.StudyRule = None,
    method: o.OwnMethod = None,
) -> None:
    """Re-evaluate the winner on new seeds, without selection bias."""
    from rich.console import Console

    from sclsearch.cli.output import print_json
    from sclsearch.papers.confirm import confirm as again
    from sclsearch.papers.terminal import show_confirmation

    options = repeat_options(resources, rule=rule, custom_method=method)
    if resources.dry_run:
        _print_plan(study, resources, options, fresh=seeds)
        return
    progress = Console(stderr=True)
    chosen, fresh = again(study, seeds, options, progress)
    if resources.json_:
        print_json({"chosen": asdict(chosen), "fresh": asdict(fresh)})
    else:
        show_confirmation(Console(), chosen, fresh)
    winner = fresh.winner
    sys.exit(INCOMPLETE if winner is None or winner.failed else 0)


def variance(
    study: o.StudyName,
    resources: o.ResourceOptions,
    subsets: Annotated[
        int,
        typer.Option(
            min=1, help="Number of training subsets, for protocols that draw subsets. Example: 3."
        ),
    ] = 1,
    initializations: Annotated[
        int,
        typer.Option(
            "--initializations",
            min=1,
            help="Number of initializations of the new layers.",
        ),
    ] = 3,
    orders: Annotated[
        int, typer.Option(min=1, help="Number of data orders, each with different random noise.")
    ] = 3,
    rule: o.StudyRule = None,
    method: o.OwnMethod = None,
) -> None:
    """Measure how much subset, initialization and data order each add to the winner's variance."""
    from rich.console import Console

    from sclsearch.cli.output import print_json
    from sclsearch.papers.confirm import variance as again
    from sclsearch.papers.terminal import show_spread

    levels = {"subset": subsets, "initialization": initializations, "order": orders}
    _check_levels(levels)
    options = repeat_options(resources, rule=rule, custom_method=method)
    if resources.dry_run:
        _print_plan(study, resources, options, crossed=levels)
        return
    progress = Console(stderr=True)
    found = again(study, levels, options, progress)
    if resources.json_:
        print_json(asdict(found))
    else:
        show_spread(Console(), study, found)


def _print_plan(
    study: str, resources: o.ResourceOptions, options: "RunOptions", **repetition: Any
) -> None:
    from sclsearch.cli.output import print_plan
    from sclsearch.papers.confirm import plan_repetition
    from sclsearch.search.estimate import finished

    planned = plan_repetition(study, options, partial(finished, options.storage), **repetition)
    print_plan(planned, as_json=resources.json_)


def _check_levels(levels: Mapping[str, int]) -> None:
    where = ", ".join(f"--{source}s" for source in levels)
    runs = math.prod(levels.values())
    if runs > MOST_RUNS:
        raise SclsearchError(
            f"{where}: must have at most {MOST_RUNS} combinations, got {runs}. Choose fewer seeds."
        )
    if sum(count > 1 for count in levels.values()) < 2:
        raise SclsearchError(
            f"{where}: at least two must be 2 or more, got "
            f"{', '.join(map(str, levels.values()))}. One source alone has no baseline."
        )
