"""Result of a study in MLflow: its report and the winner's model; and the deletion of its runs."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sclsearch.canonical import counted, digest
from sclsearch.errors import SclsearchError, first_line
from sclsearch.exports.export import ExportOptions, export
from sclsearch.exports.predictor import ExportRecord
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner, report
from sclsearch.reports.summary import summary_of
from sclsearch.selection.rules import parse_rule
from sclsearch.store.lock import check_no_driver
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import DamagedError, Storage, storage_path
from sclsearch.store.studies import StudyStore, existing_study
from sclsearch.study.state import stored_state
from sclsearch.tracking.process import TrackingError, WriterProcess
from sclsearch.tracking.records import (
    RunRecord,
    experiment_name,
    json_text,
    new_records,
    short_settings,
)
from sclsearch.tracking.server import LEVEL, connect, quietly, sqlite_uri, write_view
from sclsearch.tracking.serving import LABEL, score_columns, text_columns
from sclsearch.tracking.writer import Writer, failure_reason, runs_of

KEY = "key"
_FORBIDDEN = "/:'"
PAGE = "report.html"
PAGE_SOURCE = "sclsearch.page"
"""Tag of a study's run: digest of the data that its page shows."""


def publish(
    writer: WriterProcess, found: Report, *, registered_name: str | None = None
) -> tuple[str | None, str | None]:
    """Write the result of a study to MLflow, after its records; a repeated call changes nothing.

    The study's run gets the winner, the report and its HTML page; its experiment gets a table of
    all configurations. The winner becomes a model if its weights are stored, its method belongs to
    sclsearch and no configuration needs a further seed.

    Returns:
        The registered version as `NAME version N`, if one was requested, and the reason why MLflow
        lacks the HTML page, if it does.
    """
    results = _report_record(found)
    shown = writer.call(_write_report, results)
    warning = _write_page(writer, results, shown, found)
    own_method = bool(found.record.training.get("method_file"))
    winner = found.winner
    unready = winner is None or winner.untested or not found.finished or not _weights(found)
    registered = None
    if registered_name is not None or not (own_method or unready):
        model_id = _log_winner(writer, found)
        if registered_name is not None:
            number = writer.call(_register, results.study, registered_name, model_id)
            registered = f"{registered_name} version {number}"
    return registered, warning


def _weights(found: Report) -> bool:
    """Return whether the weights of a reported seed of the winner are stored."""
    winner, store = finished_winner(found), StudyStore(found.storage, found.study)
    return any(store.weights(winner.seeds[place].key).exists() for place in winner.reported)


def _write_report(writer: Writer, results: RunRecord) -> object:
    """Write a report; return the digest of the data of MLflow's page, or None without a page."""
    writer.write(results)
    experiment_id, run_id = writer.run_of(results.study)
    write_view(writer.client, experiment_id)
    return writer.client.get_run(run_id).data.tags.get(PAGE_SOURCE)


def _write_page(
    writer: WriterProcess, results: RunRecord, source: object, found: Report
) -> str | None:
    """Write the HTML page to a study's run, unless MLflow has a page of the same data.

    Anyone may read a shared server: the page there has no texts of the task. `source` is the digest
    of the data that MLflow's page shows; None without a page.
    """
    from sclsearch.reports.page import page_html

    shown = digest([version("sclsearch"), results.artifacts["report.json"]])
    if found.winner is None or source == shown:
        return None
    try:
        page = page_html([found], texts=False)
    except Exception as error:  # the study's result does not depend on its page
        return f"MLflow lacks {PAGE} of {found.study}: {failure_reason(error)}."
    tags, files = {PAGE_SOURCE: shown}, {PAGE: page}
    writer.write(replace(results, tags=tags, artifacts=files, description="", part="html"))
    return None


def track_study(storage: Storage, name: str, writer: WriterProcess) -> str | None:
    """Log a stored study to MLflow, without duplicates; return why its page is missing, if it is.

    Raises:
        SclsearchError: MLflow does not accept the study, or a search writes it now.
    """
    store, record = existing_study(storage, name)
    replicates, configurations = store.replicates(), store.configurations()
    rule = parse_rule(record.origin["rule"])
    check_no_driver(store.folder, lambda _: None, "MLflow gets its runs from that process.")
    runs = RunStore(storage)
    band = store.last_start().band
    state, damaged = stored_state(runs, record, replicates, configurations, rule, band)
    if damaged:
        raise DamagedError("\n".join(damaged))
    try:
        for one in new_records(state):
            writer.write(one)
        return publish(writer, report(storage, store.name))[1]
    except TrackingError as error:
        raise SclsearchError(
            f"MLflow lacks {store.name} or its report: {error}. Repair the server, then repeat the "
            "command."
        ) from error


def _report_record(found: Report) -> RunRecord:
    winner = found.winner
    return RunRecord(
        found.record.mlflow_name,
        tags={} if winner is None else {"winner": short_settings(winner.values)},
        artifacts={"report.json": json_text(asdict(found))},
        experiment=experiment_name(found.record),
        description=study_text(found),
        part="report",
    )


def study_text(found: Report) -> str:
    """Return the summary and the notes of a study as Markdown; it begins with the verdict."""
    size = f", training size {found.size}" if found.size else ""
    about = (
        f"{found.method} on {found.task}{size}, {found.model}, protocol {found.protocol}, "
        f"rule {found.rule}, {counted(found.seeds, 'seed')} per configuration."
    )
    notes = ["\n".join(f"- {note}" for note in found.notes)] if found.notes else []
    page = [f"Figures and tables: artifact `{PAGE}` of this run."] if found.winner else []
    return "\n\n".join([*summary_of(found).lines, about, *page, *notes])


def check_model_name(name: str | None, uri: str | None, *, own_method: bool) -> None:
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
    if own_method:
        raise SclsearchError(
            f"--register {name}: MLflow cannot load a method that is in a file. Use `sclsearch "
            "export` after the search."
        )


def _log_winner(writer: WriterProcess, found: Report) -> str:
    """Return the id of the winner's model; log it if MLflow lacks it."""
    winner, study = finished_winner(found), found.record.mlflow_name
    if model_id := writer.call(_find_model, study, winner.seeds[winner.reported[0]].key):
        return str(model_id)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "export"
        # Also a useless winner: the run's description has the warning.
        record = export(found, folder, ExportOptions(force=True))
        return str(writer.call(_log_model, study, winner, record, folder))


def _find_model(writer: Writer, study: str, key: str) -> str | None:
    """Return the id of a seed run's model, if any; delete other models that are unregistered."""
    for model in _models_of(writer.client, *writer.run_of(study)):
        # A killed process leaves a model that is not ready.
        if str(model.status) == "READY" and model.tags.get(KEY) == key:
            return str(model.model_id)
        _delete_unless_registered(writer.client, model)
    return None


def _log_model(
    writer: Writer, study: str, winner: ConfigurationLine, record: ExportRecord, exported: Path
) -> str:
    """Log an export as a model of the study's run; return its id."""
    from mlflow.entities import LoggedModelOutput, Metric

    client, (experiment_id, run_id) = writer.client, writer.run_of(study)
    folder = exported.with_name("model")
    _save(record, exported, folder)
    model = client.create_logged_model(
        experiment_id,
        name=record.study.replace(".", "-"),
        source_run_id=run_id,
        tags={KEY: record.key},
        params={name: str(value) for name, value in winner.values.items()},
        model_type="text-classification" if record.labels else "text-regression",
    )
    client.log_model_artifacts(model.model_id, str(folder))
    client.finalize_logged_model(model.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, 0)])
    scores = {"val": winner.score, "test": winner.test_mean}
    metrics = [
        Metric(name, value, model.creation_timestamp, 0, model_id=model.model_id, run_id=run_id)
        for name, value in scores.items()
        if value is not None
    ]
    client.log_batch(run_id, metrics=metrics)
    return str(model.model_id)


def _models_of(client: Any, experiment_id: str, run_id: str) -> Any:
    return client.search_logged_models([experiment_id], f"source_run_id = '{run_id}'")


def _delete_unless_registered(client: Any, model: Any) -> None:
    versions = client.search_model_versions(f"run_id = '{model.source_run_id}'")
    if all(one.source != model.artifact_location for one in versions):
        client.delete_logged_model(model.model_id)


def _register(writer: Writer, study: str, name: str, model_id: str) -> str:
    """Return the registry's version of a model; create name and version if they are missing."""
    client, (_, run_id) = writer.client, writer.run_of(study)
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    source = client.get_logged_model(model_id).artifact_location
    for one in client.search_model_versions(f"name = '{name}'"):
        if one.source == source:
            return str(one.version)
    created = client.create_model_version(name, source, run_id, model_id=model_id)
    return str(created.version)


def _save(record: ExportRecord, exported: Path, folder: Path) -> None:
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


def tracked_run_ids(storage: Storage, store: StudyStore) -> list[str]:
    """Return the ids of a study's runs in the MLflow database inside its storage, if any."""
    try:
        record = store.record()
    except DamagedError:
        return []
    with _own_client(storage) as client:
        if client is None or record is None:
            return []
        experiments = [one.experiment_id for one in client.search_experiments()]
        return [run.info.run_id for run in runs_of(client, experiments, record.mlflow_name)]


def delete_runs(storage: Storage, run_ids: Sequence[str]) -> None:
    """Delete runs and their models, except registered ones, from the MLflow database of a storage.

    `mlflow gc` deletes the files of deleted runs.
    """
    with _own_client(storage) as client:
        for run_id in run_ids if client else ():
            run = client.get_run(run_id)
            if run.data.tags.get(LEVEL) == "study":
                for model in _models_of(client, run.info.experiment_id, run_id):
                    _delete_unless_registered(client, model)
            client.delete_run(run_id)


@contextmanager
def _own_client(storage: Storage) -> Iterator[Any]:
    """Yield a client of the MLflow database inside a storage; None if there is none."""
    folder = storage_path(storage).local
    database = None if folder is None else folder / "mlflow.db"
    if database is None or not database.exists() or database.is_symlink():
        yield None
        return
    try:
        with quietly():
            yield connect(sqlite_uri(database))
    except Exception as error:  # of SQLite, SQLAlchemy or MLflow
        raise SclsearchError(
            f"{database}: MLflow cannot read or change it: {first_line(error).rstrip('.')}. Move "
            "the file away."
        ) from error
