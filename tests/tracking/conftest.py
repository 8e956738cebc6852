"""A fresh database for each test, and studies to show in it."""

import shutil
from pathlib import Path

import pytest

from sclsearch.tracking import (
    ConfigurationView,
    ScoreView,
    SeedRunView,
    StudyView,
    View,
    prepare,
    tracking_uri,
)

# SQLAlchemy 2.1 deprecates an option that MLflow 3.17 still uses.
NOLOAD = "ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings(NOLOAD))


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    prepare(tracking_uri(f"sqlite:///{folder}/mlflow.db", folder))
    return folder / "mlflow.db"


@pytest.fixture
def uri(fresh_database: Path, tmp_path: Path) -> str:
    shutil.copyfile(fresh_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


@pytest.fixture
def study() -> list[View]:
    views: list[View] = [
        StudyView(
            "cola-scl", {"method": "scl", "task": "cola"}, {"host": "node1"}, {"space.json": [1]}
        )
    ]
    for number in range(2):
        views.append(ConfigurationView("cola-scl", number, {"tau": 0.1 * (number + 1)}))
        views += [
            SeedRunView(
                "cola-scl",
                number,
                replicate,
                key=f"key-{number}-{replicate}",
                params={"replicate": replicate},
                evaluations=tuple((10 * u, {"validation/mcc": u / 10}) for u in range(1, 4)),
                summary={"test/mcc": 0.4},
                started=1_700_000_000.0,
                seconds=12.5,
                artifacts={"history.json": {"number": number}},
            )
            for replicate in range(3)
        ]
        views.append(ScoreView("cola-scl", number, {"score": 0.5 + number / 10}, finished=True))
    return [*views, ScoreView("cola-scl", None, {"best": 0.6}, finished=True)]
