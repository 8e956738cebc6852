"""Winner of a study as a model in MLflow, and as a version in its model registry."""

import warnings
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.reports.export import ExportOptions, export
from sclsearch.reports.export_record import ExportRecord
from sclsearch.reports.report import Report, finished_winner
from sclsearch.store.storage import Storage
from sclsearch.tracking.serving import LABEL, score_columns, text_columns

KEY = "key"
_FORBIDDEN = "/:'"


def check_model_name(name: str | None, uri: str | None) -> None:
    """Raise SclsearchError if a model cannot be registered under a name.

    A name of None registers nothing; a URI of None means that MLflow is off.
    """
    if name is None:
        return
    if uri is None:
        raise SclsearchError(
            f"--register {name}: needs MLflow, which is off. Pass --tracking with a server or a "
            "database."
        )
    if not name.strip() or set(name) & set(_FORBIDDEN):
        raise SclsearchError(
            f"--register: must be a name without {' or '.join(_FORBIDDEN)}, got {name!r}. "
            "Choose another name."
        )


def log_winner(
    client: Any, experiment_id: str, run_id: str, found: Report, storage: Storage
) -> str:
    """Return the id of the winner's model; log it if MLflow lacks it.

    Models of earlier winners are deleted unless they are registered.
    """
    from mlflow.entities import LoggedModelOutput, Metric

    winner = finished_winner(found)
    key = winner.seeds[winner.reported[0]].key
    for model in client.search_logged_models([experiment_id], f"source_run_id = '{run_id}'"):
        # A killed process leaves a model that is not ready.
        if str(model.status) == "READY" and model.tags.get(KEY) == key:
            return str(model.model_id)
        if not is_registered(client, model):
            client.delete_logged_model(model.model_id)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        record = _save(found, storage, Path(scratch) / "export", folder)
        model = client.create_logged_model(
            experiment_id,
            name=found.study.replace(".", "-"),
            source_run_id=run_id,
            tags={KEY: key},
            params={name: str(value) for name, value in winner.values.items()},
            model_type="text-classification" if record.labels else "text-regression",
        )
        client.log_model_artifacts(model.model_id, str(folder))
    client.finalize_logged_model(model.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, 0)])
    scores = {"score": winner.score, "test": winner.test_mean}
    metrics = [
        Metric(name, value, model.creation_timestamp, 0, model_id=model.model_id, run_id=run_id)
        for name, value in scores.items()
        if value is not None
    ]
    client.log_batch(run_id, metrics=metrics)
    return str(model.model_id)


def is_registered(client: Any, model: Any) -> bool:
    """Return whether the model registry has a version of a logged model."""
    versions = client.search_model_versions(f"run_id = '{model.source_run_id}'")
    return any(one.source == model.artifact_location for one in versions)


def register(client: Any, name: str, model_id: str, run_id: str) -> str:
    """Return the registry's version of a model; create name and version if they are missing."""
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    source = client.get_logged_model(model_id).artifact_location
    for one in client.search_model_versions(f"name = '{name}'"):
        if one.source == source:
            return str(one.version)
    created = client.create_model_version(name, source, run_id, model_id=model_id)
    return str(created.version)


def _save(found: Report, storage: Storage, exported: Path, folder: Path) -> ExportRecord:
    """Write the winner as an MLflow model with a signature."""
    record = export(
        found, storage, exported, ExportOptions(force=True)
    )  # the run's description warns of it
    with warnings.catch_warnings():
        # MLflow warns of its own type hints, and of a model without an example input.
        warnings.simplefilter("ignore", UserWarning)
        from mlflow.models import ModelSignature
        from mlflow.pyfunc import save_model
        from mlflow.types import ColSpec, Schema

        inputs = [ColSpec("string", name) for name in text_columns(record)]
        outputs = [ColSpec("string" if record.labels else "double", LABEL)]
        outputs += [ColSpec("double", name) for name in score_columns(record)]
        save_model(
            str(folder),
            loader_module="sclsearch.tracking.serving",
            data_path=str(exported),
            signature=ModelSignature(Schema(inputs), Schema(outputs)),
            pip_requirements=[f"sclsearch=={version('sclsearch')}"],
        )
    return record
