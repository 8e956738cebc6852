"""The `ui` command, which serves the MLflow UI."""

import os
import socket
import subprocess
import sys
from typing import Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE, storage_path


def ui(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
    storage: o.Storage = DEFAULT_STORAGE,
    tracking: o.TrackingUri = None,
    open_: bool = True,
) -> None:
    """Serve the MLflow UI on 127.0.0.1 until Ctrl-C; print the address of each experiment.

    Write to MLflow first what it lacks of the storage's studies, except running ones.

    Options:
        --port: Port of the server on 127.0.0.1.
        --open/--no-open: Open the last changed experiment in a browser.
    """
    from sclsearch.tracking.server import PARAMETERS, pages, prepare, tracking_uri, ui_command

    uri = tracking_uri(tracking, storage)
    if o.given(context, "storage"):
        place = storage_path(storage)
        if place.local is not None and not place.exists():
            raise SclsearchError(
                f"--storage {storage}: no such folder. Pass the storage of the search."
            )
    command, environment = ui_command(uri, port)
    _check_free(port)
    prepare(uri)
    _write_missing_runs(storage, uri)
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
        subprocess.Popen([sys.executable, "-m", "sclsearch.tracking.server", server, first])
    # The server replaces this process, so that ending the command also ends the server.
    os.execve(command[0], command, {**os.environ, **environment})


def _write_missing_runs(storage: str, uri: str) -> None:
    from sclsearch.reports.page import PageOptions
    from sclsearch.store.studies import study_names
    from sclsearch.tracking.publish import track_study

    # Anyone may read a shared server: the page there has no texts of the task.
    page = PageOptions(texts=False)
    for name in study_names(storage):
        try:
            warning = track_study(storage, name, uri, page).warning
        except SclsearchError as error:
            warning = str(error)
        if warning:
            sys.stderr.write(f"{warning}\n")


def _check_free(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError as error:
            raise SclsearchError(
                f"--port {port}: cannot be used: {error.strerror}. Choose another port."
            ) from error
