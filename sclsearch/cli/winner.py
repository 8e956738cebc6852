"""The `confirm` command, which trains a study's winner on new seeds."""

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.cli.spec import repeat_options
from sclsearch.errors import INCOMPLETE

if TYPE_CHECKING:
    from sclsearch.study.spec import RunOptions


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
    if resources["dry_run"]:
        _print_plan(study, seeds, resources, options)
        return
    progress = Console(stderr=True)
    chosen, fresh = again(study, seeds, options, progress)
    if resources["json_"]:
        print_json({"chosen": asdict(chosen), "fresh": asdict(fresh)})
    else:
        show_confirmation(Console(), chosen, fresh)
    winner = fresh.winner
    sys.exit(INCOMPLETE if winner is None or winner.failed else 0)


def _print_plan(
    study: str, seeds: int, resources: o.ResourceOptions, options: "RunOptions"
) -> None:
    from sclsearch.cli.output import print_plan
    from sclsearch.papers.confirm import plan_confirmation
    from sclsearch.search.plan import finished

    planned = plan_confirmation(study, seeds, options, partial(finished, options.storage))
    print_plan(planned, as_json=resources["json_"])
