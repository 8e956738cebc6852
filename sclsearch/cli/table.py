"""Command `table`: configurations or seed runs of studies as a file for other programs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError
from sclsearch.reports.table import TableFormat, TableRows
from sclsearch.store.storage import DEFAULT_STORAGE


def table(
    studies: Annotated[
        list[str], typer.Argument(help="One or more studies, see `sclsearch ls studies`.")
    ],
    form: Annotated[
        TableFormat,
        typer.Option(
            "--format",
            help="csv, parquet or json: all columns. md or latex: configurations as papers print "
            "them, in points, the winner bold.",
        ),
    ] = "csv",
    output: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: standard output. Example: results.csv."),
    ] = None,
    rows: Annotated[
        TableRows,
        typer.Option(help="One row per configuration or per seed run."),
    ] = "configurations",
    rule: o.StudyRule = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Print the configurations or the seed runs of studies as a table.

    This command does not train.
    """
    from sclsearch.api import select
    from sclsearch.reports.table import table_file
    from sclsearch.store.local import LocalPath

    if form == "parquet" and output is None:
        raise SclsearchError("--format parquet: needs a file, got none. Pass --output FILE.")
    if output is not None and output.is_dir():
        raise SclsearchError(f"--output {output}: must be a file, got a folder. Name a file in it.")
    reports = [select(study, rule=rule, storage=storage) for study in studies]
    content = table_file(reports, rows, form)
    if output is None:
        sys.stdout.write(content.decode())
    else:
        try:
            LocalPath(output.absolute()).write(content)
        except OSError as error:
            raise SclsearchError(
                f"--output {output}: cannot be written: {error.strerror}. Choose another file."
            ) from error
