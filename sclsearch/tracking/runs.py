"""The runs of a study in MLflow: each is found by its own tag, and created once."""

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
    """What MLflow holds of a run, as far as this process knows.

    Attributes:
        run_id: MLflow's name of it.
        status: MLflow's status.
        start: When it began, in milliseconds.
        params: Names of the parameters.
        tags: Tags with their values.
        metrics: Metrics with their present values; of a seed run, as they were found.
    """

    run_id: str
    status: str
    start: int
    params: set[str]
    tags: dict[str, str]
    metrics: dict[str, float]


class Runs:
    """Finds and creates the runs of one experiment.

    Attributes:
        created: Number of runs created so far.
    """

    def __init__(self, client: Any, uri: str, experiment: str) -> None:
        self.created = 0
        self._client = client
        self._experiment_id = _experiment_id(client, uri, experiment)
        self._studies: dict[str, dict[str, Run]] = {}

    def forget(self) -> None:
        """Looks everything up again: a request without an answer may have been carried out."""
        self._studies.clear()

    def get(self, study: str, *numbers: int, start: int | None = None) -> Run:
        """Returns a run; creates it, and the runs around it, if they are missing.

        Args:
            study: The study, as `name@mark`: others may have its name.
            numbers: Nothing for the study's run, else configuration, else also replicate.
            start: When a new run began, in milliseconds; None for now.
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
        """Asks once for all runs of a study: one by one, two thousand take most of a minute.

        Those of other studies of its name come with them, and are told apart by their own tag.
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
