"""A storage of two finished searches, trained once for all tests of the folder."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sclsearch.cli import app
from tests.studies import in_process


@pytest.fixture(scope="session")
def search(space_file: Path, tiny_encoder: Path) -> tuple[str, ...]:
    """Return the command of the first search."""
    # At this learning rate no configuration leads, so that the winner depends on every seed run.
    return (
        *("tune", "--method", "scl", "--task", "demo", "--train-size", "20", "--seeds", "2"),
        *("--rule", "mean", "--configs", "2", "--space", str(space_file)),
        *("--model", str(tiny_encoder), "--set", "epochs=1", "--set", "learning_rate=1e-5"),
        *("--gpus-per-trial", "0", "--storage", "storage", "--study", "mine"),
    )


@pytest.fixture(scope="session")
def whole(search: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage of two finished searches."""
    storage = tmp_path_factory.mktemp("whole") / "storage"
    there = ("--storage", str(storage))
    with in_process():
        for more in ((), ("--study", "other", "--search-seed", "1", "--tracking", "none")):
            assert CliRunner().invoke(app, [*search, *there, *more]).exit_code == 0
    return storage


@pytest.fixture
def storage(whole: Path, folder: Path) -> Path:
    """Return a copy of the storage in the current folder."""
    return Path(shutil.copytree(whole, folder / "storage"))
