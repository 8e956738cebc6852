"""Commands that show studies without training: `show`, `compare` and `report`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sclsearch.api import compare as compared
from sclsearch.api import select, write_report
from sclsearch.canonical import printable
from sclsearch.cli import options as o
from sclsearch.cli.output import print_json, write
from sclsearch.errors import INCOMPLETE, SclsearchError
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.comparison_tables import comparison_file, show_comparison, show_methods
from sclsearch.reports.report import Report
from sclsearch.reports.summary import summarize_comparison, summary_of
from sclsearch.reports.terminal import Terminal, show_summary
from sclsearch.reports.terminal import show as show_report
from sclsearch.store.storage import DEFAULT_STORAGE, LocalPath


def show(
    studies: list[str],
    format_: Literal["terminal", "md", "latex", "csv", "json", "parquet"] = "terminal",
    rows: Literal["configurations", "seed-runs", "winners"] | None = None,
    rule: o.StudyRule = None,
    seeds: o.StudySeeds = None,
    output: Path | None = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Show the ranking of studies and their winners under any selection rule, without training.

    Exit code 3 if files of a study are damaged.

    Options:
        studies: One or more studies, see `sclsearch ls studies`.
        --format: terminal: ranking, notes and winner of each study. md or latex: configurations or
            winners as papers print them, in points. csv, json or parquet: all columns; json of one
            study without --rows: the whole report.
        --rows: One row per configuration, per seed run or per study's winner. Default:
            configurations.
        --output: File to write. Default: standard output. Example: results.csv.
    """
    from sclsearch.reports.table import table_file

    if format_ == "parquet" and output is None:
        raise SclsearchError("--format parquet: needs a file, got none. Pass --output FILE.")
    if format_ == "terminal" and (rows or output):
        raise SclsearchError("--format terminal: takes no --rows and no --output. Pass another.")
    _check_file(output)
    reports = [select(study, rule=rule, storage=storage, seeds=seeds) for study in studies]
    if format_ == "terminal":
        for number, found in enumerate(reports):
            write("\n" * bool(number))
            show_report(Terminal(), found)
            show_summary(Terminal(), summary_of(found))
    elif format_ == "json" and len(reports) == 1 and not (rows or output):
        print_json(reports[0].as_dict())
    else:
        _write(output, table_file(reports, rows or "configurations", format_))
    _exit_if_damaged(reports)


def _exit_if_damaged(reports: Sequence[Report]) -> None:
    if damaged := sum(len(one.damaged) for one in reports):
        write(f"Damaged files: {damaged}, named in the notes.\n", error=True)
        sys.exit(INCOMPLETE)


def _check_file(output: Path | None) -> None:
    if output is not None and output.is_dir():
        raise SclsearchError(f"--output {output}: must be a file, got a folder. Name a file in it.")


def _write(output: Path | None, content: bytes) -> None:
    """Write to standard output, or atomically to a file at the end of its links."""
    if output is None:
        if sys.stdout.isatty():
            content = printable(content.decode()).encode()
        sys.stdout.buffer.write(content)  # UTF-8, whatever the encoding of the terminal
        return
    try:
        if output.exists() and not output.is_file():  # a pipe or a device
            output.write_bytes(content)
        else:
            LocalPath(output.resolve()).write(content)
    except OSError as error:
        raise SclsearchError(
            f"--output {output}: cannot be written: {error.strerror}. Choose another file."
        ) from error


def report(
    studies: list[str],
    output: Path,
    no_texts: bool = False,
    rule: o.StudyRule = None,
    method: o.OwnMethod = None,
    data_dir: o.DataDir = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Write a report of studies: a self-contained HTML page, its figures and its tables.

    This command does not train.

    Options:
        studies: One or more studies, see `sclsearch ls studies`. Several are compared, too.
        --output: Folder to write: missing, empty, or with an earlier report, which is replaced.
            Example: report.
        --no-texts: Leave out texts of the task.
    """
    page = write_report(
        *studies,
        output=output,
        rule=rule,
        storage=storage,
        texts=not no_texts,
        data_dir=data_dir,
        method=method,
    )
    write(f"{page}\n")
    _exit_if_damaged([select(study, rule=rule, storage=storage) for study in studies])


def compare(
    studies: list[str],
    format_: Literal["terminal", "md", "markdown", "latex", "csv"] = "terminal",
    rule: o.StudyRule = None,
    seeds: o.StudySeeds = None,
    output: Path | None = None,
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """Compare the test scores of the winners of several studies by a paired significance test.

    Scores are paired by seed. Studies of several tasks, one per method and task, are compared by
    the mean ranks of the methods. This command does not train.

    Options:
        studies: Two or more studies of one task and protocol, or of each of several tasks.
        --format: terminal: tables, notes and a summary. md (or markdown) or latex: all pairs,
            the winners and the notes, what is clearly better in bold; of several tasks the scores
            and mean ranks. csv: one row per pair, or per task.
        --output: File to write. Default: standard output. Example: pairs.tex.
    """
    if output is not None and format_ == "terminal":
        raise SclsearchError("--format terminal: takes no --output. Pass another --format.")
    if json_ and format_ != "terminal":
        raise SclsearchError(f"--format {format_}: cannot be combined with --json. Leave one out.")
    _check_file(output)
    found = compared(*studies, rule=rule, storage=storage, seeds=seeds)
    if json_:
        print_json(found.as_dict())
    elif format_ != "terminal":
        _write(output, comparison_file(found, "md" if format_ == "markdown" else format_))
    elif isinstance(found, StudyComparison):
        show_comparison(Terminal(), found)
        show_summary(Terminal(), summarize_comparison(found))
    else:
        show_methods(Terminal(), found)
    _exit_if_damaged(found.reports)
