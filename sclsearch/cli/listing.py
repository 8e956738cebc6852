"""The `ls` command, which lists methods, tasks, protocols, spaces, models and studies."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sclsearch.reports.studies import DamagedStudy, StudyLine

Kind = Literal["methods", "tasks", "protocols", "spaces", "models", "studies"]


def ls(
    context: typer.Context,
    kind: Annotated[Kind, typer.Argument(help="Kind of entries to list.")],
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """List methods, tasks, protocols, spaces, models or studies, one per line."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sclsearch.cli.output import print_json

    if kind != "studies" and o.given(context, "storage"):
        raise SclsearchError(
            f"--storage {storage}: has no effect on {kind}. Leave it out, or list studies."
        )
    found = _listed(kind, storage)
    if json_:
        print_json({kind: found})
        return
    if not found:
        sys.stderr.write(f"{storage} holds no {kind}.\n")
    summaries = {one.name: str(one) for one in found}
    if not sys.stdout.isatty():
        sys.stdout.writelines(f"{name}\t{summary}\n" for name, summary in summaries.items())
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, summary in summaries.items():
        table.add_row(name, escape(summary))
    Console().print(table)


@dataclass(frozen=True, slots=True)
class Listed:
    """Entry of a list: a name and a summary of one line."""

    name: str
    summary: str

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary


def _listed(kind: Kind, storage: str) -> "Sequence[Listed | StudyLine | DamagedStudy]":
    if kind == "studies":
        from sclsearch.reports.studies import studies
        from sclsearch.store.storage import storage_folder

        return studies(storage_folder(storage, make=False))
    return [Listed(name, summary) for name, summary in _summaries(kind).items()]


def _summaries(kind: Kind) -> dict[str, str]:
    match kind:
        case "methods":
            from sclsearch.methods import method_summaries

            return method_summaries()
        case "tasks":
            from sclsearch.tasks import TASKS

            return {name: task.summary for name, task in TASKS.items()}
        case "protocols":
            from sclsearch.protocols import PROTOCOLS

            return {name: protocol.summary for name, protocol in PROTOCOLS.items()}
        case "spaces":
            from sclsearch.spaces.load import space_summaries

            return space_summaries()
        case _:
            from sclsearch.encoders.models import ALIASES

            return {name: alias.summary for name, alias in ALIASES.items()}
