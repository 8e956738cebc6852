"""Writer of records to MLflow, which adds only the data that a run lacks."""

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sclsearch.canonical import digest
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import artifact_location, connect, prepare, quietly

ID = "sclsearch.id"
STUDY = "sclsearch.study"
LEVEL = "sclsearch.level"
NOT_FINITE = "sclsearch.not_finite"
ARTIFACTS = "sclsearch.artifacts"
PARENT = "mlflow.parentRunId"
RESERVED = ("sclsearch.", "mlflow.")

_LEVELS = ("study", "configuration", "seed run")
_LONGEST_PARAM = 6000
_LONG_PARAMS = "long_params.json"

# Name, value, milliseconds, step: the order of MLflow's Metric.
Point = tuple[str, float, int, int]


@dataclass(slots=True)
class _Run:
    """Known state of a run in MLflow: start in Unix milliseconds, names of params, the rest."""

    run_id: str
    status: str
    start: int
    params: set[str]
    tags: dict[str, str]
    metrics: dict[str, float]


class Writer:
    """Writer that updates MLflow's runs from records; a repeated write changes nothing.

    Each run has a tag as its key. The writer finds it by that tag and creates it once.

    Attributes:
        created: Number of runs created so far.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self.created = 0
        self._uri, self._experiment = uri, experiment
        self._client: Any = None
        self._experiment_id = ""
        self._studies: dict[str, dict[str, _Run]] = {}

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

    def _open(self) -> None:
        prepare(self._uri)
        client = connect(self._uri)
        experiment = client.get_experiment_by_name(self._experiment)
        self._experiment_id = (
            client.create_experiment(self._experiment, artifact_location(self._uri))
            if experiment is None
            else experiment.experiment_id
        )
        self._client = client

    def _find(self, study: str, path: tuple[int, ...], start: int | None = None) -> _Run:
        """Return a run; create it and its parent runs if they are missing."""
        if study not in self._studies:
            self._studies[study] = self._find_all(study)
        runs = self._studies[study]
        identity = "/".join([study, *map(str, path)])
        if identity not in runs:
            name, _, _ = study.partition("@")  # several studies may have the same name
            tags = {ID: identity, STUDY: name, LEVEL: _LEVELS[len(path)]}
            if path:
                tags[PARENT] = self._find(study, path[:-1]).run_id
                name = "#" + " seed ".join(map(str, path))
            created = self._client.create_run(self._experiment_id, start, tags=tags, run_name=name)
            runs[identity] = _known(created)
            self.created += 1
        return runs[identity]

    def _find_all(self, study: str) -> dict[str, _Run]:
        """Find all runs of a study in one query; single queries for 2000 runs take almost a minute.

        The query also returns runs of other studies with the same name; the tag distinguishes them.
        """
        runs: dict[str, _Run] = {}
        query = f"tags.`{STUDY}` = '{study.partition('@')[0]}'"
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], query, page_token=token)
            runs |= {run.data.tags[ID]: _known(run) for run in page}
            token = page.token
            if not token:
                return runs

    def _write_seed_run(self, record: RunRecord) -> None:
        began = time.time() - record.seconds if record.started is None else record.started
        run = self._find(record.study, record.path, start=round(1000 * began))
        # A retried seed run may have failed again with another cause.
        if run.status == record.status and record.tags.items() <= run.tags.items():
            return
        values, not_finite = _finite(record.history)
        tags = {**record.tags, **not_finite}
        # MLflow drops a repeated point only if its time is equal too: so this uses no clock.
        points = [(name, value, run.start + update, update) for name, value, update in values]
        # Delete outdated tags of a seed run that was trained again.
        for name in [n for n in run.tags if n not in tags and not n.startswith(RESERVED)]:
            self._client.delete_tag(run.run_id, name)
            del run.tags[name]
        self._describe(run, record, tags, points)
        self._terminate(run, record.status, run.start + round(1000 * record.seconds))

    def _write_parent(self, record: RunRecord) -> None:
        run = self._find(record.study, record.path)
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
        """Write points, and the params, tags and artifacts that the run lacks."""
        from mlflow.entities import Metric, Param, RunTag

        texts = {name: str(value) for name, value in record.params.items()}
        long = {name: text for name, text in texts.items() if len(text) > _LONGEST_PARAM}
        new_params = texts.keys() - long.keys() - run.params
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
        self._attach(run, {**record.artifacts, _LONG_PARAMS: long} if long else record.artifacts)

    def _attach(self, run: _Run, artifacts: Mapping[str, object]) -> None:
        """Write the files, then their digest as a marker that all files are complete."""
        texts = {
            name: json.dumps(content, indent=1, ensure_ascii=False, default=str)
            for name, content in artifacts.items()
        }
        mark = digest(texts)
        if not texts or run.tags.get(ARTIFACTS) == mark:
            return
        for name, text in texts.items():
            self._client.log_text(run.run_id, text, name)
        self._client.set_tag(run.run_id, ARTIFACTS, mark)
        run.tags[ARTIFACTS] = mark

    def _terminate(self, run: _Run, status: str | None, end: int) -> None:
        self._client.set_terminated(run.run_id, status, end)
        run.status = str(status)


def _known(run: Any) -> _Run:
    return _Run(
        run_id=run.info.run_id,
        status=run.info.status,
        start=run.info.start_time,
        params=set(run.data.params),
        tags=dict(run.data.tags),
        metrics=dict(run.data.metrics),
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
