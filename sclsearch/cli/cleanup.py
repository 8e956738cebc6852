"""Commands that delete: `rm` removes a study, `gc` files that no study needs."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE

if TYPE_CHECKING:
    from sclsearch.store.cleanup import Cleanup

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")
]


def rm(
    study: Annotated[str, typer.Argument(help="Full name of a study, see `sclsearch ls studies`.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """Delete a study; seed runs that other studies share stay.

    MLflow runs of the study are deleted too if the database is in the storage.
    """
    from sclsearch.api import remove_study

    found = remove_study(study, storage=storage, dry_run=True)
    if not json_:
        _show(found)
        _show_what_stays(found)
    if dry_run or _agreed(f"Delete study {study}?", "rm", yes=yes):
        found = found if dry_run else remove_study(study, storage=storage)
        _tell(found, f"deleted study {study}", dry_run=dry_run, as_json=json_)


def gc(
    yes: Yes = False,
    dry_run: DryRun = False,
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """Delete seed runs and weights that no study names, and files of interrupted writes."""
    from sclsearch.api import collect_garbage

    found = collect_garbage(storage=storage, dry_run=True)
    files = sum(map(len, found.files.values()))
    if not json_:
        _show(found)
    if dry_run or not files or _agreed("Delete these files?", "gc", yes=yes):
        found = found if dry_run or not files else collect_garbage(storage=storage)
        _tell(found, "deleted these files", dry_run=dry_run or not files, as_json=json_)


def _show(found: "Cleanup") -> None:
    from rich.console import Console
    from rich.filesize import decimal

    from sclsearch.reports.terminal import grid

    rows = [
        (kind, str(len(sizes)), decimal(sum(sizes.values()))) for kind, sizes in found.files.items()
    ]
    rows.append(("together", str(sum(map(len, found.files.values()))), decimal(found.bytes)))
    Console().print(grid(("files of", "number", "size"), rows))


def _show_what_stays(found: "Cleanup") -> None:
    if found.shared:
        sys.stdout.write(f"{found.shared} seed runs stay: other studies share them.\n")
    tracked = f"{found.tracked} runs in the storage's own database go too"
    if not found.tracked:
        tracked = "no runs in the storage's own database; runs elsewhere stay"
    sys.stdout.write(f"MLflow: {tracked}.\n")


def _agreed(question: str, command: str, *, yes: bool) -> bool:
    """Return the user's answer.

    Raises:
        SclsearchError: There is no terminal for an answer, and `yes` is False.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise SclsearchError(
            f"{command}: standard input is not a terminal, so it cannot ask. Pass --yes to delete, "
            "or --dry-run to see the files."
        )
    return typer.confirm(question, err=True)


def _tell(found: "Cleanup", deleted: str, *, dry_run: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from sclsearch.cli.output import print_json

    if as_json:
        print_json({**asdict(found), "bytes": found.bytes, "deleted": not dry_run})
    elif not dry_run:
        sys.stdout.write(f"{deleted.capitalize()}.\n")
