"""Writer of records to MLflow, which adds only the data that a run lacks."""

import json
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from sclsearch.canonical import digest
from sclsearch.tracking.runs import Run, Runs
from sclsearch.tracking.server import connect, prepare, quietly
from sclsearch.tracking.views import ConfigurationView, ScoreView, SeedRunView, StudyView, View

KEY = "sclsearch.key"
NOT_FINITE = "sclsearch.not_finite"
ARTIFACTS = "sclsearch.artifacts"
RESERVED = ("sclsearch.", "mlflow.")

_LONGEST_PARAM = 6000
_LONG_PARAMS = "long_params.json"

# Name, value, milliseconds, step: the order of MLflow's Metric.
Point = tuple[str, float, int, int]


class Writer:
    """Writer that updates MLflow's runs from records; a repeated write changes nothing."""

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri = uri
        self._experiment = experiment
        self._client: Any = None
        self._runs: Runs | None = None

    @property
    def created(self) -> int:
        """Number of runs created so far."""
        return 0 if self._runs is None else self._runs.created

    def write(self, view: View) -> None:
        """Update the run of a record.

        Raises:
            Exception: Any exception of MLflow; it may have received a part of the record.
        """
        with quietly():
            runs = self._open()
            try:
                match view:
                    case StudyView():
                        run = runs.get(view.name)
                        self._describe(run, view.params, view.tags, view.artifacts)
                    case ConfigurationView():
                        run = runs.get(view.study, view.number)
                        self._describe(run, view.params, view.tags, {})
                    case SeedRunView():
                        self._write_seed_run(runs, view)
                    case ScoreView():
                        self._write_score(runs, view)
            except Exception:
                runs.forget()
                raise

    def answers(self) -> bool:
        """Return True if MLflow is reachable."""
        try:
            connect(self._uri)
        except Exception:
            return False
        return True

    def _open(self) -> Runs:
        if self._runs is None:
            prepare(self._uri)
            self._client = connect(self._uri)
            self._runs = Runs(self._client, self._uri, self._experiment)
        return self._runs

    def _write_seed_run(self, runs: Runs, view: SeedRunView) -> None:
        began = time.time() - view.seconds if view.started is None else view.started
        place = (view.configuration, view.replicate)
        run = runs.get(view.study, *place, start=round(1000 * began))
        status = "FAILED" if view.failed else "FINISHED"
        # A retried seed run may have failed again with another cause.
        if run.status == status and view.tags.items() <= run.tags.items():
            return
        last = view.evaluations[-1][0] if view.evaluations else 0
        values, not_finite = _finite((*view.evaluations, (last, view.summary)))
        tags = {**view.tags, **not_finite, KEY: view.key}
        # MLflow drops a repeated point only if its time is equal too: so this uses no clock.
        points = [(name, value, run.start + update, update) for name, value, update in values]
        self._drop_tags(run, kept=tags)
        self._describe(run, view.params, tags, view.artifacts, points)
        self._terminate(run, status, run.start + round(1000 * view.seconds))

    def _write_score(self, runs: Runs, view: ScoreView) -> None:
        numbers = () if view.configuration is None else (view.configuration,)
        run = runs.get(view.study, *numbers)
        values, not_finite = _finite([(0, view.metrics)])
        now = round(1000 * time.time())
        points = [
            (name, value, now, self._next_step(run, name))
            for name, value, _ in values
            if run.metrics.get(name) != value
        ]
        self._describe(run, {}, not_finite, {}, points)
        run.metrics |= {name: value for name, value, *_ in points}
        if view.finished and (points or run.status != "FINISHED"):
            self._terminate(run, "FINISHED", now)

    def _next_step(self, run: Run, name: str) -> int:
        # MLflow shows the value of the highest step, independently of the drivers' clocks.
        there = name in run.metrics
        return len(self._client.get_metric_history(run.run_id, name)) if there else 0

    def _describe(
        self,
        run: Run,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        artifacts: Mapping[str, object],
        points: Iterable[Point] = (),
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        texts = {name: str(value) for name, value in params.items()}
        long = {name: text for name, text in texts.items() if len(text) > _LONGEST_PARAM}
        new_params = texts.keys() - long.keys() - run.params
        new_tags = {name: text for name, text in tags.items() if run.tags.get(name) != text}
        self._client.log_batch(
            run.run_id,
            metrics=[Metric(*point) for point in points],
            params=[Param(name, texts[name]) for name in sorted(new_params)],
            tags=[RunTag(name, text) for name, text in new_tags.items()],
        )
        run.params |= new_params
        run.tags |= new_tags
        self._attach(run, {**artifacts, _LONG_PARAMS: long} if long else artifacts)

    def _drop_tags(self, run: Run, kept: Mapping[str, str]) -> None:
        """Delete outdated tags of a seed run that has been trained again."""
        for name in [n for n in run.tags if n not in kept and not n.startswith(RESERVED)]:
            self._client.delete_tag(run.run_id, name)
            del run.tags[name]

    def _attach(self, run: Run, artifacts: Mapping[str, object]) -> None:
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

    def _terminate(self, run: Run, status: str, end: int) -> None:
        self._client.set_terminated(run.run_id, status, end)
        run.status = status


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
