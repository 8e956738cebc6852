"""Commands `ls`, which lists names and studies, and `rm`, which deletes studies."""

import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

import typer
from rich.filesize import decimal
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from sclsearch.api import remove
from sclsearch.canonical import counted, shown
from sclsearch.cli import options as o
from sclsearch.cli.output import print_json, write
from sclsearch.encoders.models import ALIASES
from sclsearch.errors import SclsearchError
from sclsearch.methods import find_method, method_summaries
from sclsearch.protocols import protocol_summaries
from sclsearch.reports.studies import in_words, studies
from sclsearch.reports.terminal import Terminal
from sclsearch.spaces.load import load_space, practical_file, space_summaries
from sclsearch.spaces.space import searched_values
from sclsearch.store.storage import DEFAULT_STORAGE, storage_folder
from sclsearch.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sclsearch.spaces.space import Parameter


Kind = Literal["methods", "tasks", "protocols", "spaces", "models", "studies"]


def ls(
    context: typer.Context,
    kind: Kind,
    name: str | None = None,
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """List methods, tasks, protocols, spaces, models or studies, one per line.

    `sclsearch ls methods scl` prints the description and the hyperparameters of a method.

    Options:
        kind: Kind of entries to list.
        name: A method to describe with its hyperparameters; only after `methods`. Example: scl.
    """
    if kind != "studies" and o.given(context, "storage"):
        raise SclsearchError(
            f"--storage {storage}: has no effect on {kind}. Leave it out, or list studies."
        )
    if name is not None:
        _print_method(kind, name, as_json=json_)
        return
    if kind == "studies":
        found = studies(storage_folder(storage, make=False))
        entries: Sequence[Mapping[str, object]] = found
        summaries = {one["name"]: in_words(one) for one in found}
    else:
        summaries = _summaries(kind)
        entries = [{"name": one, "summary": summary} for one, summary in summaries.items()]
    if json_:
        print_json({kind: entries})
        return
    if not summaries:
        write(f"{storage} holds no {kind}.\n", error=True)
    _print_entries(summaries, in_rows=kind != "studies")


def _print_entries(summaries: "Mapping[str, str]", *, in_rows: bool) -> None:
    if not sys.stdout.isatty():
        lines = (f"{name}\t{'; '.join(text.splitlines())}\n" for name, text in summaries.items())
        sys.stdout.writelines(lines)
        return
    console = Terminal()
    if not in_rows:
        for name, summary in summaries.items():
            console.print(f"[bold]{name}[/]", soft_wrap=True)
            console.print(Padding(escape(summary), (0, 0, 0, 2), expand=False))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, summary in summaries.items():
        table.add_row(name, escape(summary))
    console.print(table)


def _print_method(kind: Kind, name: str, *, as_json: bool) -> None:
    from sclsearch.methods.fields import describe_fields, description

    if kind != "methods":
        raise SclsearchError(f"ls {kind} {name}: only methods have details. Leave out {name}.")
    method = find_method(name)
    text, descriptions = description(method.kind), describe_fields(method.kind)
    if as_json:
        print_json({"description": text, "hyperparameters": descriptions})
        return
    searched: Mapping[str, Parameter] = {}
    with suppress(SclsearchError):  # a method without a built-in space
        searched = load_space(practical_file(method.name), method.kind).parameters
    console = Terminal()
    console.print(f"{escape(text)}\n\n[bold]Hyperparameters[/]\n", soft_wrap=True)
    for position, one in enumerate(descriptions):
        if one.shared and not descriptions[position - 1].shared:
            console.print("\n[bold]Training, the same for every method[/]\n")
        console.print(
            f"[bold]{one.name}[/] = {escape(shown(one.default))}  [dim]{escape(one.kind)}[/]"
        )
        lines = [one.meaning]
        if one.name in searched:
            lines.append(f"Searched: {searched_values(asdict(searched[one.name]))}.")
        for line in lines:
            console.print(Padding(escape(line), (0, 0, 0, 4)))


def _summaries(kind: Kind) -> dict[str, str]:
    summaries: dict[str, Callable[[], dict[str, str]]] = {
        "methods": method_summaries,
        "protocols": protocol_summaries,
        "spaces": space_summaries,
        "tasks": lambda: {name: task.summary for name, task in TASKS.items()},
        "models": lambda: {name: alias.summary for name, alias in ALIASES.items()},
    }
    return summaries[kind]()


def rm(
    studies: list[str] | None = None,
    unused: bool = False,
    yes: bool = False,
    dry_run: bool = False,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Delete studies; seed runs that other studies share stay.

    MLflow runs of the studies are deleted too if the database is in the storage.

    Options:
        studies: Full names of studies, see `sclsearch ls studies`.
        --unused: Delete seed runs, weights and checkpoints that no study names, and files of
            interrupted writes.
        --yes -y: Delete without asking.
        --dry-run: List the files that would be deleted; delete nothing.
    """
    names = studies or []
    found = remove(*names, unused=unused, storage=storage, dry_run=True)
    runs = sum(path.startswith("runs/") for path in found.files)
    write(
        f"{counted(len(found.files), 'file')}, {decimal(found.bytes)}: {runs} of seed runs, "
        f"{len(found.files) - runs} of studies\n"
    )
    if found.shared:
        write(f"{found.shared} seed runs stay: other studies share them.\n")
    if names:
        write(f"MLflow: {found.tracked} runs in the storage's own database\n")
    if dry_run:
        write("".join(f"{path}\n" for path in sorted(found.files)))
    if dry_run or not found.files:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise SclsearchError(
                "rm: standard input is not a terminal, so it cannot ask. Pass --yes to delete, or "
                "--dry-run to see the number of files."
            )
        typer.confirm("Delete these files?", err=True, abort=True)
    remove(*names, unused=unused, storage=storage)
    write("Deleted.\n")
