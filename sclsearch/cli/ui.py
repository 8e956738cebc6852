"""Command `ui`, which serves the MLflow UI."""

import os
import socket
import sys
from contextlib import closing
from typing import Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.cli.output import write
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE, storage_path
from sclsearch.store.studies import study_names
from sclsearch.tracking.server import PARAMETERS, pages, prepare_database, tracking_uri, ui_command


def ui(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
    storage: o.Storage = DEFAULT_STORAGE,
    tracking: o.TrackingUri = None,
) -> None:
    """Serve the MLflow UI on 127.0.0.1 until Ctrl-C; print the address of each experiment.

    First log the storage's studies that MLflow lacks, except running ones.

    Options:
        --port: Port of the server on 127.0.0.1.
    """
    uri = tracking_uri(tracking, storage)
    if o.given(context, "storage"):
        place = storage_path(storage)
        if place.local is not None and not place.exists():
            raise SclsearchError(
                f"--storage {storage}: no such folder. Pass the storage of the search."
            )
    command, environment = ui_command(uri, port)
    _check_free(port)
    prepare_database(uri)
    _write_missing_runs(storage, uri)
    server = f"http://127.0.0.1:{port}"
    experiments = pages(uri, server) or [("no study", f"{server}/#/experiments?{PARAMETERS}")]
    write("".join(f"{name}\n  {address}\n" for name, address in experiments))
    write("Ctrl-C ends the server.\n")
    sys.stdout.flush()
    # The server replaces this process, so that ending the command also ends the server.
    os.execve(command[0], command, {**os.environ, **environment})


def _write_missing_runs(storage: str, uri: str) -> None:
    from sclsearch.tracking.process import WriterProcess
    from sclsearch.tracking.publish import track_study

    names = study_names(storage)
    if names:
        write("Writing to MLflow the studies that it lacks …\n", error=True)
    with closing(WriterProcess(uri, storage)) as writer:
        for name in names:
            try:
                warning = track_study(storage, name, writer)
            except SclsearchError as error:
                warning = str(error)
            if warning:
                write(f"{warning}\n", error=True)


def _check_free(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError as error:
            raise SclsearchError(
                f"--port {port}: cannot be used: {error.strerror}. Choose another port."
            ) from error
