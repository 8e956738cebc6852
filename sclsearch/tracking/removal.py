"""Permanent deletion of a study's runs from the MLflow database of a storage."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sclsearch.errors import SclsearchError, first_line
from sclsearch.store.local import DamagedError
from sclsearch.store.storage import Storage, storage_path
from sclsearch.store.studies import StudyStore
from sclsearch.tracking.model import is_registered
from sclsearch.tracking.server import connect, quietly, sqlite_uri
from sclsearch.tracking.view import describe_experiment
from sclsearch.tracking.writer import LEVEL, runs_of

AT_ONCE = 500


def tracked_run_ids(storage: Storage, store: StudyStore) -> list[str]:
    """Return the ids of a study's runs in the MLflow database inside its storage.

    Without such a database, and for a study with a damaged record, the list is empty.

    Raises:
        SclsearchError: MLflow cannot read the database.
    """
    uri = _own_database(storage)
    study = _name_in_mlflow(store)
    if uri is None or study is None:
        return []
    try:
        with quietly():
            client = connect(uri)
            experiments = [one.experiment_id for one in client.search_experiments()]
            return [run.info.run_id for run in runs_of(client, experiments, study)]
    except Exception as error:  # of SQLite, SQLAlchemy or MLflow
        raise SclsearchError(
            f"{uri}: MLflow cannot read it: {first_line(error).rstrip('.')}. Move the file away."
        ) from error


def delete_runs(storage: Storage, run_ids: Sequence[str]) -> None:
    """Delete runs, their artifacts and their models from the MLflow database inside a storage.

    The descriptions of their experiments then rank the other studies.
    Registered models stay. In a copy of a storage, runs may have their artifacts in the original.
    Such runs are only marked as deleted, and their artifacts stay.
    """
    uri, folder = _own_database(storage), storage_path(storage).local
    if uri is None or folder is None:
        return
    inside, experiments = [], set[str]()
    with quietly():
        client = connect(uri)
        for run_id in run_ids:
            run = client.get_run(run_id)
            experiments.add(run.info.experiment_id)
            if run.info.artifact_uri.startswith(f"{folder.as_uri()}/"):
                inside.append(run_id)
                if run.data.tags.get(LEVEL) == "study":
                    _delete_models(client, run.info.experiment_id, run_id)
            client.delete_run(run_id)
        for experiment in experiments:
            describe_experiment(client, experiment)
    for start in range(0, len(inside), AT_ONCE):
        _delete_permanently(uri, inside[start : start + AT_ONCE])
    for run_id in inside:
        with suppress(OSError):  # MLflow leaves the folder of the run's artifacts
            (folder / "mlartifacts" / run_id).rmdir()


def _delete_models(client: Any, experiment_id: str, run_id: str) -> None:
    """Mark the models of a run as deleted; `mlflow gc` deletes their files."""
    for model in client.search_logged_models([experiment_id], f"source_run_id = '{run_id}'"):
        if not is_registered(client, model):
            client.delete_logged_model(model.model_id)


def _delete_permanently(uri: str, run_ids: Sequence[str]) -> None:
    """Run `mlflow gc`: the client alone would only mark the runs as deleted."""
    command = [sys.executable, "-m", "mlflow", "gc", "--backend-store-uri", uri]
    command += ["--tracking-uri", uri, "--run-ids", ",".join(run_ids)]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1].rstrip(".")
        raise SclsearchError(f"{uri}: MLflow cannot delete {len(run_ids)} runs: {reason}.")


def _own_database(storage: Storage) -> str | None:
    folder = storage_path(storage).local
    database = None if folder is None else folder / "mlflow.db"
    return sqlite_uri(database) if database and database.exists() else None


def _name_in_mlflow(store: StudyStore) -> str | None:
    try:
        record = store.record()
    except DamagedError:
        return None
    return None if record is None else record.mlflow_name
