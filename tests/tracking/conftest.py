"""Fixtures of the tracking tests: a database for each test, and records of a study."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sclsearch.reports.page import PageOptions
from sclsearch.store.storage import Storage
from sclsearch.tracking.logger import Writer
from sclsearch.tracking.publish import TrackedStudy, track_study
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import prepare, tracking_uri

Write = Callable[..., int]


def track(storage: Storage, study: str, uri: str, *, texts: bool = False) -> TrackedStudy:
    """Write to MLflow what it lacks of a stored study."""
    return track_study(storage, study, uri, PageOptions(texts=texts))


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    prepare(tracking_uri(f"sqlite:///{folder}/mlflow.db", folder))
    return folder / "mlflow.db"


@pytest.fixture
def uri(fresh_database: Path, tmp_path: Path) -> str:
    shutil.copyfile(fresh_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


@dataclass(frozen=True)
class Shown:
    """Reader of the MLflow runs at a URI."""

    uri: str

    @property
    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(self.uri)

    def runs(self) -> dict[str, Any]:
        """Return MLflow's runs by id; fail if an id occurs twice."""
        client = self.client
        experiments = [one.experiment_id for one in client.search_experiments()]
        runs = client.search_runs(experiments, max_results=5000)
        by_name = {run.data.tags["sclsearch.id"]: run for run in runs}
        assert len(by_name) == len(runs)
        return by_name

    def points(self, run: Any) -> dict[str, list[tuple[int, float]]]:
        """Return every metric point of a run, as step and value."""
        history = self.client.get_metric_history
        return {
            key: sorted((p.step, p.value) for p in history(run.info.run_id, key))
            for key in run.data.metrics
        }

    def everything(self) -> dict[str, object]:
        """Return all run data that does not depend on the time of writing."""
        return {
            name: (
                run.info.run_name,
                run.info.status,
                run.data.params,
                {key: tag for key, tag in run.data.tags.items() if key != "mlflow.parentRunId"},
                self.points(run),
            )
            for name, run in self.runs().items()
        }

    def study(self) -> Any:
        """Return the run of the only study."""
        (run,) = [run for run in self.runs().values() if run.data.tags["level"] == "study"]
        return run

    def files(self, run: Any) -> set[str]:
        """Return the names of a run's artifacts."""
        return {file.path for file in self.client.list_artifacts(run.info.run_id)}

    def text(self, run: Any, name: str) -> str:
        from mlflow.artifacts import load_text

        return str(load_text(f"{run.info.artifact_uri}/{name}"))


@pytest.fixture
def shown(uri: str) -> Shown:
    """Return a reader of the test's own database."""
    return Shown(uri)


@pytest.fixture
def write(uri: str) -> Write:
    """Return a function that writes records with a new writer and returns how many runs are new."""
    return partial(write_records, uri=uri)


def write_records(*records: RunRecord, uri: str) -> int:
    writer = Writer(uri)
    for record in records:
        writer.write(record)
    return writer.created


@pytest.fixture
def study() -> list[RunRecord]:
    """Return the records of a study with two configurations and three seed runs of each."""
    name = "cola-scl"
    params: dict[str, object] = {"method": "scl", "task": "cola"}
    files = {"space.json": "[1]"}
    records = [RunRecord(name, params=params, tags={"host": "node1"}, artifacts=files, name=name)]
    points = ((10, {"mcc": 0.1}), (20, {"mcc": 0.2}), (20, {"test": 0.4}))
    for number in range(2):
        path, score = (number,), {"score": 0.5 + number / 10}
        records.append(RunRecord(name, path, {"tau": 0.1 * (number + 1)}, name=f"tau={number}"))
        records += [
            RunRecord(
                name,
                (number, replicate),
                tags={"key": f"key-{number}-{replicate}"},
                history=points,
                status="FINISHED",
                started=1_700_000_000.0,
                seconds=12.5,
                artifacts={"history.json": f"[{number}]"},
                name=f"seed {replicate}",
            )
            for replicate in range(3)
        ]
        records.append(RunRecord(name, path, metrics=score, status="FINISHED", part="scores"))
    best = RunRecord(name, metrics={"best": 0.6}, status="FINISHED", part="scores")
    return [*records, best]
