"""Writer of records to MLflow, which adds only the data that a run lacks."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.tracking.records import DatasetRecord, RunRecord, json_bytes
from sclsearch.tracking.server import artifact_location, connect, prepare, quietly

ID = "sclsearch.id"
NOT_FINITE = "sclsearch.not_finite"
ARTIFACTS = "sclsearch.artifacts"
LEVEL = "level"
LEVELS = ("study", "configuration", "seed run")
PARENT = "mlflow.parentRunId"
DESCRIPTION = "mlflow.note.content"
RESERVED = ("sclsearch.", "mlflow.")
# Without this tag the UI opens an experiment as one of language model applications.
KIND = {"mlflow.experimentKind": "custom_model_development"}

_LONGEST_PARAM = 6000
_LONG_PARAMS = "long_params.json"
_LONGEST_DIGEST = 36

# Name, value, milliseconds, step: the order of MLflow's Metric.
Point = tuple[str, float, int, int]


@dataclass(slots=True)
class _Run:
    """Known state of a run in MLflow: start in Unix milliseconds, names of params, the rest."""

    run_id: str
    name: str
    status: str
    start: int
    params: set[str]
    tags: dict[str, str]
    metrics: dict[str, float]
    datasets: set[tuple[str, str, str]]


@dataclass(slots=True)
class _Study:
    """Known runs of a study, by the value of their tag `ID`, and the experiment that has them."""

    experiment_id: str
    runs: dict[str, _Run]


class Writer:
    """Writer that updates MLflow's runs from records; a repeated write changes nothing.

    Each run has a tag as its key. The writer finds it by that tag and creates it once.

    Attributes:
        created: Number of runs created so far.
    """

    def __init__(self, uri: str) -> None:
        self.created = 0
        self._uri = uri
        self._client: Any = None
        self._studies: dict[str, _Study] = {}

    def write(self, record: RunRecord) -> None:
        """Update the run of a record.

        Raises:
            Exception: Any exception of MLflow; it may have received a part of the record.
        """
        with quietly():
            if self._client is None:
                self._open()
            try:
                if len(record.path) == 2:
                    self._write_seed_run(record)
                else:
                    self._write_parent(record)
            except Exception:
                # A request without an answer may still have changed MLflow.
                self._studies.clear()
                raise

    def answers(self) -> bool:
        """Return True if MLflow is reachable."""
        try:
            connect(self._uri)
        except Exception:
            return False
        return True

    def run_of(self, study: str) -> tuple[str, str]:
        """Return the ids of the experiment and of the run of a study that `write` has written."""
        known = self._studies[study]
        return known.experiment_id, known.runs[study].run_id

    def _open(self) -> None:
        prepare(self._uri)
        self._client = connect(self._uri)

    def _find(self, record: RunRecord, path: tuple[int, ...], start: int | None = None) -> _Run:
        """Return a run of a record's study; create it and its parent runs if they are missing."""
        study = record.study
        if study not in self._studies:
            self._studies[study] = self._find_study(study, record.experiment)
        known = self._studies[study]
        identity = "/".join([study, *map(str, path)])
        if identity not in known.runs:
            tags = {ID: identity, LEVEL: LEVELS[len(path)]}
            if path:
                parent = self._find(record, path[:-1])
                tags[PARENT] = parent.run_id
                if len(path) == 1:
                    # MLflow sorts equal scores by start, latest first: lowest number first.
                    start = parent.start - path[0]
            name = identity.partition("@")[0]
            if path == record.path:
                tags |= record.tags
                name = record.name or name
            created = self._client.create_run(known.experiment_id, start, tags=tags, run_name=name)
            known.runs[identity] = _known(created)
            self.created += 1
        return known.runs[identity]

    def _find_study(self, study: str, experiment: str) -> _Study:
        """Return the runs of a study and its experiment, which is created if it is missing."""
        found = self._client.get_experiment_by_name(experiment)
        if found is None:
            location = artifact_location(self._uri)
            return _Study(self._client.create_experiment(experiment, location, tags=KIND), {})
        if found.lifecycle_stage != "active":
            raise SclsearchError(
                f"the experiment {experiment!r} is deleted there; restore it: "
                f"mlflow experiments restore -x {found.experiment_id}"
            )
        logged = runs_of(self._client, [found.experiment_id], study)
        return _Study(found.experiment_id, {run.data.tags[ID]: _known(run) for run in logged})

    def _write_seed_run(self, record: RunRecord) -> None:
        began = time.time() - record.seconds if record.started is None else record.started
        run = self._find(record, record.path, start=round(1000 * began))
        values, not_finite = _finite(record.history)
        # A retried seed run may have failed again with another cause. A test may come later.
        same = run.status == record.status and record.tags.items() <= run.tags.items()
        if same and {name for name, *_ in values} <= run.metrics.keys():
            return
        tags = {**record.tags, **not_finite}
        # MLflow drops a repeated point only if its time is equal too: so this uses no clock.
        points = [(name, value, run.start + update, update) for name, value, update in values]
        # Delete outdated tags of a seed run that was trained again.
        for name in [n for n in run.tags if n not in {*tags, LEVEL} and not n.startswith(RESERVED)]:
            self._client.delete_tag(run.run_id, name)
            del run.tags[name]
        self._describe(run, record, tags, points)
        run.metrics |= {name: value for name, value, *_ in points}
        self._terminate(run, record.status, run.start + round(1000 * record.seconds))

    def _write_parent(self, record: RunRecord) -> None:
        run = self._find(record, record.path)
        values, not_finite = _finite([(0, record.metrics)])
        now = round(1000 * time.time())
        points = [
            (name, value, now, self._next_step(run, name))
            for name, value, _ in values
            if run.metrics.get(name) != value
        ]
        self._describe(run, record, {**record.tags, **not_finite}, points)
        run.metrics |= {name: value for name, value, *_ in points}
        if record.status is not None and (points or run.status != record.status):
            self._terminate(run, record.status, now)

    def _next_step(self, run: _Run, name: str) -> int:
        # MLflow shows the value of the highest step, independently of the drivers' clocks.
        there = name in run.metrics
        return len(self._client.get_metric_history(run.run_id, name)) if there else 0

    def _describe(
        self, run: _Run, record: RunRecord, tags: Mapping[str, str], points: Iterable[Point]
    ) -> None:
        """Write points, and the name, params, tags, rows and files that the run lacks."""
        from mlflow.entities import Metric, Param, RunTag

        if record.name and record.name != run.name:
            self._client.update_run(run.run_id, name=record.name)
            run.name = record.name
        texts = {name: str(value) for name, value in record.params.items()}
        long = {name: text for name, text in texts.items() if len(text) > _LONGEST_PARAM}
        new_params = texts.keys() - long.keys() - run.params
        tags = {LEVEL: LEVELS[len(record.path)], **tags}
        if record.description:
            tags[DESCRIPTION] = record.description
        new_tags = {name: text for name, text in tags.items() if run.tags.get(name) != text}
        metrics = [Metric(*point) for point in points]
        if metrics or new_params or new_tags:
            self._client.log_batch(
                run.run_id,
                metrics=metrics,
                params=[Param(name, texts[name]) for name in sorted(new_params)],
                tags=[RunTag(name, text) for name, text in new_tags.items()],
            )
        run.params |= new_params
        run.tags |= new_tags
        self._log_datasets(run, record.datasets)
        long_params = {_LONG_PARAMS: json_bytes(long)} if long else {}
        self._attach(run, {**record.artifacts, **long_params})

    def _log_datasets(self, run: _Run, datasets: Iterable[DatasetRecord]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        new = {
            key: one
            for one in datasets
            if (key := (one.name, one.digest[:_LONGEST_DIGEST], one.context)) not in run.datasets
        }
        if not new:
            return
        inputs = [
            DatasetInput(
                Dataset(name, digest, "local", json_bytes({"uri": one.source}).decode()),
                [InputTag("mlflow.data.context", context)],
            )
            for (name, digest, context), one in new.items()
        ]
        self._client.log_inputs(run.run_id, inputs)
        run.datasets |= new.keys()

    def _attach(self, run: _Run, artifacts: Mapping[str, bytes]) -> None:
        """Write the files that differ, then their digests in a tag as a marker of completeness."""
        there = set(run.tags.get(ARTIFACTS, "").split())
        marks = {
            path: f"{path}:{sha256(content).hexdigest()[:12]}"
            for path, content in artifacts.items()
        }
        new = {path: content for path, content in artifacts.items() if marks[path] not in there}
        if not new:
            return
        with TemporaryDirectory() as folder:
            for path, content in new.items():
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            self._client.log_artifacts(run.run_id, folder)
        others = {
            mark for mark in there if mark.rpartition(":")[0] not in artifacts and ":" in mark
        }
        tag = " ".join(sorted({*others, *marks.values()}))
        self._client.set_tag(run.run_id, ARTIFACTS, tag)
        run.tags[ARTIFACTS] = tag

    def _terminate(self, run: _Run, status: str | None, end: int) -> None:
        self._client.set_terminated(run.run_id, status, end)
        run.status = str(status)


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


def _known(run: Any) -> _Run:
    return _Run(
        run_id=run.info.run_id,
        name=run.info.run_name,
        status=run.info.status,
        start=run.info.start_time,
        params=set(run.data.params),
        tags=dict(run.data.tags),
        metrics=dict(run.data.metrics),
        datasets={
            (one.dataset.name, one.dataset.digest, tag.value)
            for one in (run.inputs.dataset_inputs if run.inputs else ())
            for tag in one.tags
        },
    )


def _finite(
    rows: Iterable[tuple[int, Mapping[str, float]]],
) -> tuple[list[tuple[str, float, int]], dict[str, str]]:
    """Return name, value and step of each finite metric, and a tag that lists the others."""
    values = [(name, float(value), step) for step, row in rows for name, value in row.items()]
    rest = sorted({name for name, value, _ in values if not math.isfinite(value)})
    return (
        [point for point in values if math.isfinite(point[1])],
        {NOT_FINITE: ", ".join(rest)} if rest else {},
    )
