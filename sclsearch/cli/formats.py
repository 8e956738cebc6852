"""Commands that write studies as files: `table` and `report`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE


def table(
    studies: Annotated[
        list[str], typer.Argument(help="One or more studies, see `sclsearch ls studies`.")
    ],
    form: Annotated[
        Literal["csv", "parquet", "json", "md", "latex"],
        typer.Option(
            "--format",
            help="csv, parquet or json: all columns. md or latex: configurations or winners as "
            "papers print them, in points, the winner or the best bold.",
        ),
    ] = "csv",
    output: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: standard output. Example: results.csv."),
    ] = None,
    rows: Annotated[
        Literal["configurations", "seed-runs", "winners"],
        typer.Option(
            help="One row per configuration, per seed run or per study's winner. Winners in md or "
            "latex: methods by tasks.",
        ),
    ] = "configurations",
    rule: o.StudyRule = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Print the configurations, seed runs or winners of studies as a table.

    This command does not train.
    """
    from sclsearch.api import select
    from sclsearch.reports.table import table_file

    if form == "parquet" and output is None:
        raise SclsearchError("--format parquet: needs a file, got none. Pass --output FILE.")
    if output is not None and output.is_dir():
        raise SclsearchError(f"--output {output}: must be a file, got a folder. Name a file in it.")
    reports = [select(study, rule=rule, storage=storage) for study in studies]
    content = table_file(reports, rows, form)
    if output is None:
        sys.stdout.buffer.write(content)  # UTF-8, whatever the encoding of the terminal
    else:
        try:
            _write(output, content)
        except OSError as error:
            raise SclsearchError(
                f"--output {output}: cannot be written: {error.strerror}. Choose another file."
            ) from error


def _write(output: Path, content: bytes) -> None:
    """Write a file atomically, at the end of its links; write into a pipe or a device."""
    from sclsearch.store.local import LocalPath

    if output.exists() and not output.is_file():
        output.write_bytes(content)
    else:
        LocalPath(output.resolve()).write(content)


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
