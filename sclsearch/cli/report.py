"""Command `report`: studies as a folder with a page, figures and tables."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.store.storage import DEFAULT_STORAGE


def report(
    studies: Annotated[
        list[str],
        typer.Argument(
            help="One or more studies, see `sclsearch ls studies`. Several are compared with the "
            "first."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            help="Folder to write: missing, empty, or with an earlier report, which is replaced. "
            "Example: report."
        ),
    ],
    no_texts: Annotated[
        bool, typer.Option("--no-texts", help="Leave out texts of the task.")
    ] = False,
    rule: o.StudyRule = None,
    method: o.OwnMethod = None,
    data_dir: o.DataDir = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Write a report of studies: a self-contained HTML page, its figures and its tables.

    This command does not train.
    """
    from sclsearch.api import write_report

    page = write_report(
        *studies,
        output=output,
        rule=rule,
        storage=storage,
        texts=not no_texts,
        data_dir=data_dir,
        method=method,
    )
    sys.stdout.write(f"{page}\n")
