"""A storage of two finished searches, trained once for all tests of the folder."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sclsearch.cli import app
from tests.studies import in_process

SPACE = """
method: scl
source: a test
published: [{tau: 0.3}]
fixed: {epochs: 1, batch_size: 16, max_length: 16}
space:
  tau: {type: choice, values: [0.1, 0.3]}
"""


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the storage and the search space."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="session")
def search(place: Path, tiny_encoder: Path) -> tuple[str, ...]:
    """Return the command of the first search."""
    (place / "space.yaml").write_text(SPACE, encoding="utf-8")
    return (
        *("tune", "--method", "scl", "--task", "demo", "--train-size", "20", "--seeds", "2"),
        *("--rule", "mean", "--configs", "2", "--space", str(place / "space.yaml")),
        *("--model", str(tiny_encoder), "--set", "epochs=1", "--gpus-per-trial", "0"),
        *("--storage", "storage", "--study", "mine"),
    )


@pytest.fixture(scope="session")
def whole(place: Path, search: tuple[str, ...]) -> Path:
    """Return the storage of two finished searches."""
    there = ("--storage", str(place / "storage"))
    with in_process():
        for more in ((), ("--study", "other", "--search-seed", "1", "--tracking", "none")):
            assert CliRunner().invoke(app, [*search, *there, *more]).exit_code == 0
    return place / "storage"


@pytest.fixture
def storage(whole: Path, folder: Path) -> Path:
    """Return a copy of the storage in the current folder."""
    return Path(shutil.copytree(whole, folder / "storage"))
