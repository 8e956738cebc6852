"""Deletion of a study's runs from the MLflow database of a storage."""

from collections.abc import Sequence

from sclsearch.errors import SclsearchError, first_line
from sclsearch.store.storage import DamagedError, Storage, storage_path
from sclsearch.store.studies import StudyStore
from sclsearch.tracking.model import is_registered
from sclsearch.tracking.server import connect, quietly, sqlite_uri
from sclsearch.tracking.writer import LEVEL, runs_of


def tracked_run_ids(storage: Storage, store: StudyStore) -> list[str]:
    """Return the ids of a study's runs in the MLflow database inside its storage.

    Without such a database, and for a study with a damaged record, the list is empty.
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
    """Delete runs and their models, except registered ones, from the MLflow database of a storage.

    `mlflow gc` deletes the files of deleted runs.
    """
    uri = _own_database(storage)
    if uri is None:
        return
    with quietly():
        client = connect(uri)
        for run_id in run_ids:
            run = client.get_run(run_id)
            if run.data.tags.get(LEVEL) == "study":
                query = f"source_run_id = '{run_id}'"
                for model in client.search_logged_models([run.info.experiment_id], query):
                    if not is_registered(client, model):
                        client.delete_logged_model(model.model_id)
            client.delete_run(run_id)


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
