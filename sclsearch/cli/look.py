"""Commands that do not train: `select`, `compare`, `check`, `track`, `ui` and `doctor`."""

import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sclsearch.arguments import expanded
from sclsearch.cli import options as o
from sclsearch.errors import INCOMPLETE, SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE


def select(
    study: o.StudyName,
    rule: o.StudyRule = None,
    seeds: o.StudySeeds = None,
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """Rank the configurations of a study under any selection rule and show the winner.

    This command does not train. Exit code 3 if files of the study are damaged.
    """
    from rich.console import Console

    from sclsearch.api import select as chosen
    from sclsearch.cli.output import print_json, report_json
    from sclsearch.reports.terminal import show

    found = chosen(study, rule=rule, storage=storage, seeds=seeds)
    if json_:
        print_json(report_json(found))
    else:
        show(Console(), found)
    if found.damaged:
        sys.stderr.write(f"Damaged files: {len(found.damaged)}, named in the notes.\n")
        sys.exit(INCOMPLETE)


def compare(
    studies: Annotated[
        list[str],
        typer.Argument(
            help="Two or more studies of one task and protocol. The first is the reference."
        ),
    ],
    rule: o.StudyRule = None,
    seeds: o.StudySeeds = None,
    storage: o.Storage = DEFAULT_STORAGE,
    json_: o.Json = False,
) -> None:
    """Compare the test scores of the winners of several studies by a paired significance test.

    Scores are paired by seed. This command does not train.
    """
    from rich.console import Console

    from sclsearch.api import compare as compared
    from sclsearch.cli.output import print_json
    from sclsearch.reports.comparison_tables import show_comparison

    found = compared(*studies, rule=rule, storage=storage, seeds=seeds)
    if json_:
        print_json(asdict(found))
    else:
        show_comparison(Console(), found)


def check(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Search space files to validate.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Validate all built-in search spaces.")
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(
            help="Method that the files are for, or FILE.py:CLASS. Default: the method that each "
            "file names."
        ),
    ] = None,
) -> None:
    """Validate search space files; report each error with its place."""
    from sclsearch.methods import find_method
    from sclsearch.spaces.load import check_file, space_files

    chosen = [*(files or ()), *(space_files() if all_ else ())]
    if not chosen:
        raise SclsearchError("check: neither files nor --all given. Pass one of them.")
    if all_ and method is not None:
        raise SclsearchError(
            f"--method {method}: cannot be combined with --all, since each built-in space names "
            "its method. Leave out one of them."
        )
    kind = None if method is None else find_method(method).kind
    faults = [fault for file in chosen for fault in check_file(file, kind)]
    if faults:
        raise SclsearchError("\n".join(faults))
    sys.stdout.write(f"{len(chosen)} {'file is' if len(chosen) == 1 else 'files are'} in order.\n")


def track(
    study: o.StudyName,
    storage: o.Storage = DEFAULT_STORAGE,
    tracking: o.TrackingUri = None,
    register: o.Register = None,
    texts: Annotated[
        bool,
        typer.Option("--texts", help="Show texts of the task in MLflow's HTML page. Default: off."),
    ] = False,
) -> None:
    """Log the missing runs of a study and its winner to MLflow, without duplicates."""
    from sclsearch.api import track as logged

    done = logged(study, storage=storage, tracking=tracking, register=register, texts=texts)
    sys.stdout.write(f"MLflow shows all of {done.study}; {done.created} runs were missing.\n")
    if done.warning is not None:
        sys.stderr.write(f"{done.warning}\n")
    if done.registered is not None:
        sys.stdout.write(f"Registered: {done.registered}\n")


def ui(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of the server on 127.0.0.1.")
    ] = 5000,
    storage: o.Storage = DEFAULT_STORAGE,
    tracking: o.TrackingUri = None,
    open_: Annotated[
        bool,
        typer.Option("--open/--no-open", help="Open the last changed experiment in a browser."),
    ] = True,
) -> None:
    """Serve the MLflow UI on 127.0.0.1 until Ctrl-C; print the address of each experiment."""
    from sclsearch.tracking.server import prepare, tracking_uri, ui_command
    from sclsearch.tracking.view import PARAMETERS, pages

    uri = tracking_uri(tracking, storage)
    if o.given(context, "storage"):
        _check_shown(storage, tracking)
    command, environment = ui_command(uri, port)
    _check_free(port)
    prepare(uri)
    server = f"http://127.0.0.1:{port}"
    experiments = pages(uri, server)
    first = experiments[0][1] if experiments else f"{server}/#/experiments?{PARAMETERS}"
    for name, address in experiments:
        sys.stdout.write(f"{name}\n  {address}\n")
    if not experiments:
        sys.stdout.write(f"{first} shows the studies.\n")
    sys.stdout.write("Ctrl-C ends the server.\n")
    sys.stdout.flush()
    if open_ and sys.stdout.isatty():
        subprocess.Popen([sys.executable, "-m", "sclsearch.tracking.browser", server, first])
    # The server replaces this process, so that ending the command also ends the server.
    os.execve(command[0], command, {**os.environ, **environment})


def doctor(
    storage: o.Storage = DEFAULT_STORAGE, data_dir: o.DataDir = None, tracking: o.Tracking = None
) -> None:
    """Check this machine: packages, GPUs, model, hub, data, storage and tracking.

    Exit code 1 if a required package is missing or the storage does not work.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sclsearch.cli.health import findings

    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    found = list(findings(storage, data_dir, tracking))
    for finding in found:
        mark = "[green]yes[/]" if finding.works else "[yellow]no[/]"
        table.add_row(f"[bold]{finding.what}[/]", mark, escape(finding.detail))
    Console().print(table)
    sys.exit(int(any(finding.needed and not finding.works for finding in found)))


def _check_shown(storage: str, tracking: str | None) -> None:
    """Raise SclsearchError for a missing storage, or a storage that the UI would not show."""
    if tracking is not None or os.environ.get("MLFLOW_TRACKING_URI"):
        raise SclsearchError(
            f"--storage {storage}: cannot be combined with --tracking or MLFLOW_TRACKING_URI, "
            "which name another MLflow store. Leave out one of the two."
        )
    if not expanded(Path(storage)).is_dir():
        raise SclsearchError(
            f"--storage {storage}: no such folder. Pass the storage of the search."
        )


def _check_free(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError as error:
            raise SclsearchError(
                f"--port {port}: cannot be used: {error.strerror}. Choose another port."
            ) from error
