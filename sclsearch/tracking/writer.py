"""Writer of records to MLflow: one run per study, configuration and seed run, found by its tag."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.tracking.records import RunRecord, json_text
from sclsearch.tracking.server import (
    LEVEL,
    artifact_location,
    connect,
    masked,
    prepare_database,
)

ID = "sclsearch.id"
LEVELS = ("study", "configuration", "seed run")
PARENT = "mlflow.parentRunId"
DESCRIPTION = "mlflow.note.content"
# Without this tag the UI opens an experiment as one of language model applications.
KIND = {"mlflow.experimentKind": "custom_model_development"}


@dataclass(frozen=True, slots=True)
class _Study:
    """Experiment of a study, and MLflow's runs by the value of their tag `ID`."""

    experiment_id: str
    runs: dict[str, Any]


class Writer:
    """Writer that creates and updates MLflow's runs; a repeated write changes nothing."""

    def __init__(self, uri: str) -> None:
        self.created = 0
        self._uri = uri
        self.client: Any = None
        self._studies: dict[str, _Study] = {}

    def write(self, record: RunRecord) -> None:
        """Update the run of a record."""
        if self.client is None:
            prepare_database(self._uri)
            self.client = connect(self._uri)
        try:
            self._write(record)
        except Exception:  # the server may have done what it did not answer
            self._studies.pop(record.study, None)
            raise

    def run_of(self, study: str) -> tuple[str, str]:
        """Return the ids of the experiment and of the run of a study that `write` has written."""
        known = self._studies[study]
        return known.experiment_id, known.runs[study].info.run_id

    def _write(self, record: RunRecord) -> None:
        run = self._find(record, record.path)
        mark = _mark(record)
        ended = record.status in {None, run.info.status}
        if ended and mark.items() <= run.data.tags.items():
            return
        run_id = run.info.run_id
        if record.name and record.name != run.info.run_name:
            self.client.update_run(run_id, name=record.name)
        if record.data:
            self.client.log_inputs(run_id, _inputs(*record.data))
        for path, text in record.artifacts.items():
            self.client.log_text(run_id, text, path)
        tags = {**record.tags, **mark}
        if record.description:
            tags[DESCRIPTION] = record.description
        if len(record.path) == 2 and "failure" in run.data.tags.keys() - tags.keys():
            self.client.delete_tag(run_id, "failure")  # the seed run was trained again
            del run.data.tags["failure"]
        self._log(run, record, tags)
        run.data.tags.update(tags)
        if record.status is not None:
            end = time.time() if record.started is None else record.started + record.seconds
            self.client.set_terminated(run_id, record.status, round(1000 * end))

    def _log(self, run: Any, record: RunRecord, tags: Mapping[str, str]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        # MLflow drops a repeated point only if its time is equal too: so a history uses no clock.
        start = run.info.start_time
        metrics = [
            Metric(name, value, start + update, update)
            for update, values in record.history
            for name, value in values.items()
            if math.isfinite(value)
        ]
        now = round(1000 * time.time())
        changed = {
            name: value
            for name, value in record.metrics.items()
            if math.isfinite(value) and run.data.metrics.get(name) != value
        }
        metrics += [Metric(name, value, now, 0) for name, value in changed.items()]
        params = [Param(name, str(value)) for name, value in record.params.items()]
        run_tags = [RunTag(name, text) for name, text in tags.items()]
        self.client.log_batch(run.info.run_id, metrics=metrics, params=params, tags=run_tags)
        run.data.metrics.update(changed)

    def _find(self, record: RunRecord, path: tuple[int, ...]) -> Any:
        study = record.study
        if study not in self._studies:
            self._studies[study] = self._find_study(study, record.experiment)
        known, identity = self._studies[study], _identity(record, path)
        if identity not in known.runs:
            tags = {ID: identity, LEVEL: LEVELS[len(path)]}
            start, name = None, identity
            if path:
                tags[PARENT] = self._find(record, path[:-1]).info.run_id
            if path == record.path:
                start = None if record.started is None else round(1000 * record.started)
                name = record.name or identity
            known.runs[identity] = self.client.create_run(
                known.experiment_id, start, tags=tags, run_name=name
            )
            self.created += 1
        return known.runs[identity]

    def _find_study(self, study: str, experiment: str) -> _Study:
        found = self.client.get_experiment_by_name(experiment)
        location = artifact_location(self._uri)
        if found is None:
            return _Study(self.client.create_experiment(experiment, location, tags=KIND), {})
        place = found.artifact_location
        if location is not None and place != location and place.startswith("file:"):
            raise SclsearchError(
                "the database was copied or moved; delete it, and `sclsearch ui` writes it again. "
                f"Its artifacts are in {place}"
            )
        logged = runs_of(self.client, [found.experiment_id], study)
        return _Study(found.experiment_id, {run.data.tags[ID]: run for run in logged})


def runs_of(client: Any, experiment_ids: Sequence[str], study: str) -> Iterator[Any]:
    """Yield all runs of a study in few queries; single queries for 2000 runs take almost a minute.

    In LIKE, `_` stands for any character: a query may return runs of other studies too.

    `study` is the study's unique name, `name@mark`.
    """
    query, token = f"tags.`{ID}` LIKE '{study}%'", None
    while True:
        page = client.search_runs(list(experiment_ids), query, page_token=token)
        yield from (run for run in page if run.data.tags[ID].partition("/")[0] == study)
        token = page.token
        if not token:
            return


def _identity(record: RunRecord, path: tuple[int, ...]) -> str:
    return "/".join([record.study, *map(str, path)])


def _mark(record: RunRecord) -> dict[str, str]:
    content = json.dumps(asdict(record), sort_keys=True, default=str)
    return {f"sclsearch.{record.part}": sha256(content.encode()).hexdigest()}


def _inputs(name: str, digest: str, source: str) -> list[Any]:
    from mlflow.entities import Dataset, DatasetInput

    # MLflow accepts digests of at most 36 characters.
    return [DatasetInput(Dataset(name, digest[:36], "local", json_text({"uri": source})), [])]


def failure_reason(error: Exception) -> str:
    """Return a one-line reason: the system's error rather than MLflow's for a broken connection."""
    cause = _root_error(error)
    lines = masked(str(cause)).strip().splitlines() or [type(cause).__name__]
    return lines[0][:200].removesuffix(".")


def is_unreachable(error: Exception) -> bool:
    """Return whether the system's error, such as a refused connection, caused an MLflow error."""
    return _root_error(error) is not error


def _root_error(error: Exception) -> BaseException:
    """Return the system's error behind an error of MLflow, or else the error itself."""
    cause: BaseException = error
    link = error.__cause__ or error.__context__
    while link is not None:
        cause = link if isinstance(link, OSError) else cause
        link = link.__cause__ or link.__context__
    return cause
