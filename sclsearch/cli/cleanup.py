"""The `rm` command, which deletes studies, and files that no study needs."""

import sys
from typing import Annotated

import typer

from sclsearch.canonical import counted
from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE


def rm(
    studies: Annotated[
        list[str] | None, typer.Argument(help="Full names of studies, see `sclsearch ls studies`.")
    ] = None,
    unused: Annotated[
        bool,
        typer.Option(
            "--unused",
            help="Delete seed runs and weights that no study names, and files of interrupted "
            "writes.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")
    ] = False,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Delete studies; seed runs that other studies share stay.

    MLflow runs of the studies are deleted too if the database is in the storage.
    """
    from rich.filesize import decimal

    from sclsearch.api import remove

    names = studies or []
    found = remove(*names, unused=unused, storage=storage, dry_run=True)
    runs = sum(path.startswith("runs/") for path in found.files)
    sys.stdout.write(
        f"{counted(len(found.files), 'file')}, {decimal(found.bytes)}: {runs} of seed runs, "
        f"{len(found.files) - runs} of studies\n"
    )
    if found.shared:
        sys.stdout.write(f"{found.shared} seed runs stay: other studies share them.\n")
    if names:
        sys.stdout.write(f"MLflow: {found.tracked} runs in the storage's own database\n")
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
    sys.stdout.write("Deleted.\n")
