"""Lookup and creation of MLflow runs: each has a tag as its key and is created once."""

from dataclasses import dataclass
from typing import Any

from sclsearch.tracking.server import artifact_location

ID = "sclsearch.id"
STUDY = "sclsearch.study"
LEVEL = "sclsearch.level"
PARENT = "mlflow.parentRunId"

_LEVELS = ("study", "configuration", "seed run")


@dataclass(slots=True)
class Run:
    """Known state of a run in MLflow.

    Attributes:
        run_id: MLflow's run id.
        status: MLflow's status.
        start: Start of the run, Unix time in milliseconds.
        params: Names of the logged parameters.
        tags: Tags with their values.
        metrics: Metrics with their latest values; for a seed run, the values at lookup.
    """

    run_id: str
    status: str
    start: int
    params: set[str]
    tags: dict[str, str]
    metrics: dict[str, float]


class Runs:
    """Finder and creator of the runs of one MLflow experiment.

    Attributes:
        created: Number of runs created so far.
    """

    def __init__(self, client: Any, uri: str, experiment: str) -> None:
        self.created = 0
        self._client = client
        self._experiment_id = _experiment_id(client, uri, experiment)
        self._studies: dict[str, dict[str, Run]] = {}

    def forget(self) -> None:
        """Clear the cache: a request without an answer may still have changed MLflow."""
        self._studies.clear()

    def get(self, study: str, *numbers: int, start: int | None = None) -> Run:
        """Return a run; create it and its parent runs if they are missing.

        Args:
            study: The study, as `name@mark`, since several studies may have the same name.
            numbers: Empty for the study's run; the configuration number; or that and the replicate
                number.
            start: Start of a new run, Unix time in milliseconds; None means now.
        """
        if study not in self._studies:
            self._studies[study] = self._find_all(study)
        runs = self._studies[study]
        identity = "/".join([study, *map(str, numbers)])
        if identity not in runs:
            called, _, _ = study.partition("@")
            tags = {ID: identity, STUDY: called, LEVEL: _LEVELS[len(numbers)]}
            if numbers:
                tags[PARENT] = self.get(study, *numbers[:-1]).run_id
            name = " seed ".join([f"#{numbers[0]}", *map(str, numbers[1:])]) if numbers else called
            runs[identity] = _known(
                self._client.create_run(self._experiment_id, start, tags=tags, run_name=name)
            )
            self.created += 1
        return runs[identity]

    def _find_all(self, study: str) -> dict[str, Run]:
        """Find all runs of a study in one query; single queries for 2000 runs take almost a minute.

        The query also returns runs of other studies with the same name; the tag distinguishes them.
        """
        runs: dict[str, Run] = {}
        called, _, _ = study.partition("@")
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment_id], f"tags.`{STUDY}` = '{called}'", page_token=token
            )
            runs |= {run.data.tags[ID]: _known(run) for run in page}
            token = page.token
            if not token:
                return runs


def _experiment_id(client: Any, uri: str, name: str) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name, artifact_location(uri)))
    return str(experiment.experiment_id)


def _known(run: Any) -> Run:
    return Run(
        run_id=run.info.run_id,
        status=run.info.status,
        start=run.info.start_time,
        params=set(run.data.params),
        tags=dict(run.data.tags),
        metrics=dict(run.data.metrics),
    )
