"""Fixtures of the tracking tests: a database for each test, and a reader of its runs."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sclsearch.tracking.server import connect, prepare_database, tracking_uri


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    prepare_database(tracking_uri(f"sqlite:///{folder}/mlflow.db", folder))
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
        return connect(self.uri)

    def runs(self) -> dict[str, Any]:
        """Return MLflow's runs by id; fail if an id occurs twice."""
        experiments = [one.experiment_id for one in self.client.search_experiments()]
        runs = self.client.search_runs(experiments, max_results=5000)
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


@pytest.fixture
def shown(uri: str) -> Shown:
    """Return a reader of the test's own database."""
    return Shown(uri)
