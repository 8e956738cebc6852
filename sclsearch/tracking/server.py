"""Location of the MLflow records, and a client with short timeouts and no log output."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import get_ident
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from sclsearch.arguments import expanded
from sclsearch.errors import SclsearchError, first_line
from sclsearch.store.storage import Storage, publish, storage_path, try_to_write
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
_LOGGERS = ("mlflow", "alembic")
_URIS = "Use http://host:port or sqlite:////folder/mlflow.db."
_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")
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

    Args:
        option: Value of `--tracking`; the default is `MLFLOW_TRACKING_URI`, and `none` turns
            MLflow off.
        storage: Folder for a SQLite file if neither is given; an object store cannot hold one.
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


def check(uri: str) -> None:
    """Check that `prepare` can succeed, without creating anything."""
    database = sqlite_file(uri)
    if database is None:
        _check_driver(uri)
    elif not _is_there(database):
        with _creating(database):
            try_to_write(database.parent)


def _is_there(database: Path) -> bool:
    """Return True if a SQLite file exists; MLflow would try to open a folder for minutes."""
    if database.is_dir():
        raise SclsearchError(
            f"--tracking: {database} must be a database file, got a folder. Name a file in it."
        )
    return database.exists()


@contextmanager
def _creating(database: Path) -> Iterator[None]:
    """Convert file system errors of the body to SclsearchError."""
    try:
        yield
    except OSError as error:
        raise SclsearchError(
            f"{database}: cannot create MLflow's database: {error}. "
            "Choose another --tracking or --storage."
        ) from None


def prepare(uri: str) -> None:
    """Create the database if the URI names a SQLite file that is missing.

    If two processes create a file at once, or a kill interrupts its creation, MLflow leaves it
    unusable. The function therefore creates the file under another name and publishes it
    when complete.
    """
    database = sqlite_file(uri)
    if database is None:
        _check_driver(uri)
        return
    if _is_there(database):
        return
    with _creating(database), TemporaryDirectory() as folder:
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
    """Make MLflow time out early, and log nothing in this thread; errors still raise.

    The settings stay in the environment of this process.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import mlflow  # noqa: F401  # creates the log handlers

    with ExitStack() as stack:
        thread = get_ident()
        for handler in {h for name in _LOGGERS for h in logging.getLogger(name).handlers}:
            handler.addFilter(others := lambda record: record.thread != thread)
            stack.callback(handler.removeFilter, others)
        yield


def ui_command(uri: str, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves the MLflow UI of a database on this machine only.

    Returns:
        The command line and additional environment variables. The environment holds the URI,
        because every user of the machine can read a command line and a database's URI may hold a
        password.
    """
    if not uri.startswith(("sqlite", "postgresql", "mysql", "mssql")):
        raise SclsearchError(f"{masked(uri)}: is a server, not a database. Open it in a browser.")
    command = [sys.executable, "-m", "mlflow", "server"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    location = artifact_location(uri)
    if location is not None:
        command += ["--artifacts-destination", location]
    environment = {
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
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
    """Return a path in which `?`, and `%` before two hexadecimal digits, are percent-encoded.

    SQLAlchemy reads all other characters as they are.
    """
    return re.sub(r"%(?=[0-9A-Fa-f]{2})|\?", lambda found: quote(found[0]), str(path))
