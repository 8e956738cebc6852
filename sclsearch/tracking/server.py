"""MLflow: its location, a client with short timeouts and no log output, and its pages."""

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from sclsearch.arguments import expanded
from sclsearch.canonical import check_regular
from sclsearch.errors import SclsearchError, first_line
from sclsearch.store.storage import (
    Storage,
    nearest,
    permissions,
    publish,
    storage_path,
    try_writing,
)
from sclsearch.study.spec import NO_TRACKING

NO_DATABASE = (
    "an object store holds no database, and neither --tracking nor MLFLOW_TRACKING_URI names a "
    "server or a database"
)

# By default, one call to a dead server takes four minutes; with three retries it takes 15 seconds.
# Settings of the user take precedence.
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
LEVEL = "level"
"""Tag of a run: `study`, `configuration` or `seed run`."""
VIEW = "ranking"
"""Key of the table's saved view in the address of an experiment."""
PARAMETERS = "workflowType=machine_learning"
"""Without it the UI opens its pages for language model applications."""
_VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
_METRICS = ("val", "test", "seeds", "test_std", "val_loss")
_URIS = "Use http://host:port or sqlite:////folder/mlflow.db."
_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")
_SQLITE_START = b"SQLite format 3\0"
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(?!:memory:)(?P<path>[^?]+)")


def tracking_uri(option: str | None, storage: Storage) -> str:
    """Return the MLflow tracking URI of `find_tracking_uri`; raise an error if there is none."""
    uri = find_tracking_uri(option, storage)
    if uri is not None:
        return uri
    if option == NO_TRACKING:
        raise SclsearchError(
            f"--tracking: must name a server or a database, got {option!r}. {_URIS}"
        )
    raise SclsearchError(f"--storage {storage}: {NO_DATABASE}. {_URIS}")


def find_tracking_uri(option: str | None, storage: Storage) -> str | None:
    """Return the absolute MLflow tracking URI, or None if none is available.

    `option` is the value of `--tracking`; its default is `MLFLOW_TRACKING_URI`, and `none` turns
    MLflow off. If neither is given, it is a SQLite file in the storage; an object store cannot hold
    one.
    """
    if option == NO_TRACKING:
        return None
    uri = (os.environ.get("MLFLOW_TRACKING_URI") or None) if option is None else option
    if uri is None:
        folder = storage_path(storage).local
        return None if folder is None else sqlite_uri(folder / "mlflow.db")
    match, database = _SQLITE.match(uri), sqlite_file(uri)
    if match and database:
        return f"{uri[: match.start('path')]}{_encoded(database)}{uri[match.end('path') :]}"
    scheme = re.split(r"[:+]", uri)[0]
    no_host = re.fullmatch(r"https?:/*", uri) is not None
    if scheme not in _SCHEMES or scheme == "sqlite" or no_host:
        where = "MLFLOW_TRACKING_URI" if option is None else "--tracking"
        raise SclsearchError(
            f"{where}: must name a server or a database, got {masked(uri)!r}. {_URIS}"
        )
    return uri


def masked(text: str) -> str:
    """Return the text with user names and passwords removed from its URIs."""
    text = re.sub(r"://\S*@", "://***@", text)
    return re.sub(r"(?i)\b(\w*(?:password|passwd|pwd|token|secret))=[^&\s]+", r"\1=***", text)


def prepare_database(uri: str, *, dry: bool = False) -> None:
    """Create the database if the URI names a SQLite file that is missing; check it if `dry`.

    If two processes create a file at once, or a kill interrupts its creation, MLflow leaves it
    unusable. The function therefore creates the file under another name and publishes it
    when complete.
    """
    database = sqlite_file(uri)
    if database is None:
        _check_driver(uri)
        return
    if database.exists():
        _check_database(database)
        for path in (database, database.parent):
            if not os.access(path, os.W_OK, effective_ids=True):
                raise SclsearchError(
                    f"--tracking: {path} must be writable, and its permissions are "
                    f"{permissions(path)}. Change them, or choose another --tracking."
                )
        return
    try:
        try_writing(nearest(database.parent))
        if not dry:
            _create(database)
    except OSError as error:
        raise SclsearchError(
            f"{database}: cannot create MLflow's database: {error}. "
            "Choose another --tracking or --storage."
        ) from None


def _check_database(database: Path) -> None:
    """Raise SclsearchError for another file, which MLflow would try to open for minutes."""
    try:
        check_regular(database)
        with database.open("rb") as file:
            start = file.read(len(_SQLITE_START))
    except OSError as error:
        raise SclsearchError(
            f"--tracking: {database} cannot be read: {error.strerror}. Name a database file."
        ) from error
    if start not in (b"", _SQLITE_START):
        raise SclsearchError(
            f"--tracking: {database} must be a SQLite database. Move it away or name another file."
        )


def _create(database: Path) -> None:
    with TemporaryDirectory() as folder:
        database.parent.mkdir(parents=True, exist_ok=True)
        made = Path(folder) / "mlflow.db"
        connect(sqlite_uri(made))
        copy = database.with_name(f".{database.name}-{uuid4().hex}")
        try:
            shutil.copyfile(made, copy)
            publish(copy, database)
        finally:
            copy.unlink(missing_ok=True)


def _check_driver(uri: str) -> None:
    if uri.startswith(("http", "databricks")):
        return
    from sqlalchemy import make_url

    try:
        make_url(uri).get_dialect().import_dbapi()
    except Exception as error:  # of SQLAlchemy or Python
        raise SclsearchError(
            f"{masked(uri)}: cannot load its Python driver: {first_line(error)}. Install it."
        ) from None


def connect(uri: str) -> Any:
    """Return an MLflow client after its server has answered."""
    if (database := sqlite_file(uri)) is not None and database.exists():
        _check_database(database)
    with quietly():
        from mlflow import MlflowClient

        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
        return client


def artifact_location(uri: str) -> str | None:
    """Return the artifact folder as a URI, or None if the server chooses it."""
    database = sqlite_file(uri)
    return None if database is None else (database.parent / "mlartifacts").as_uri()


@contextmanager
def quietly() -> Iterator[None]:
    """Make MLflow time out early, and disable logging in the body; errors still raise.

    The settings stay in the environment of this process.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def ui_command(uri: str, port: int) -> tuple[list[str], dict[str, str]]:
    """Return command and environment variables to serve the UI of a database on this machine.

    The environment holds the URI, which may have a password: every user can read a command line.
    """
    if not uri.startswith(("sqlite", "postgresql", "mysql", "mssql")):
        raise SclsearchError(f"{masked(uri)}: is a server, not a database. Open it in a browser.")
    command = [sys.executable, "-m", "mlflow", "server"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--uvicorn-opts", "--log-level warning"]  # or it prints a line per request
    location = artifact_location(uri)
    if location is not None:
        command += ["--artifacts-destination", location]
    environment = {
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        **_SETTINGS,
    }
    return command, environment


def sqlite_file(uri: str) -> Path | None:
    """Return the file of a SQLite database, or None if the URI names another database."""
    match = _SQLITE.match(uri)
    return expanded(Path(unquote(match["path"]))).resolve() if match else None


def sqlite_uri(database: Path) -> str:
    """Return the URI of a SQLite file."""
    return f"sqlite:///{_encoded(database)}"


def _encoded(path: Path) -> str:
    # SQLAlchemy reads all other characters as they are.
    return re.sub(r"%(?=[0-9A-Fa-f]{2})|\?", lambda found: quote(found[0]), str(path))


def write_view(client: Any, experiment_id: str) -> None:
    """Write the view of the table to an experiment: all configurations, the best first."""
    runs = client.search_runs([experiment_id], f"tags.{LEVEL} = 'study'")
    view = json.dumps(_view(runs))
    if client.get_experiment(experiment_id).tags.get(_VIEW_TAG) != view:
        client.set_experiment_tag(experiment_id, _VIEW_TAG, view)


def pages(uri: str, server: str) -> list[tuple[str, str]]:
    """Return name and address of each experiment that has a view, last changed first.

    `server` is the address of the UI, such as `http://127.0.0.1:5000`.
    """
    found = connect(uri).search_experiments(order_by=["last_update_time DESC"])
    return [
        (
            one.name,
            f"{server}/#/experiments/{one.experiment_id}/runs?{PARAMETERS}&viewStateShareKey={VIEW}",
        )
        for one in found
        if _VIEW_TAG in one.tags
    ]


def _view(runs: list[Any]) -> dict[str, object]:
    searched = [name for run in runs for name in run.data.tags.get("searched", "").split()]
    metrics = [f"metrics.`{name}`" for name in _METRICS]
    params = [f"params.`{name}`" for name in ("method", *dict.fromkeys(searched))]
    columns = [params[0], *metrics, *params[1:]]
    # `val`, `test` and `seeds` are visible beside the assistant on a screen of 1280 pixels.
    widths = {"attributes.`Run Name`": 180, **dict.fromkeys(columns, 70)}
    return {
        "searchFilter": f"tags.{LEVEL} = 'configuration'",
        "orderByKey": "metrics.`val`",
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": [*widths],
        "columnWidths": widths,
    }
