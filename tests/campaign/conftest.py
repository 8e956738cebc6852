"""A storage of two finished searches, trained once for all tests of the folder."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.search.run import run
from sclsearch.study.spec import RunOptions, StudySpec
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
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """Return a folder with a storage of two finished searches and their search space."""
    place = tmp_path_factory.mktemp("whole")
    (place / "space.yaml").write_text(SPACE, encoding="utf-8")
    spec = StudySpec(
        method="scl",
        task="demo",
        model=str(tiny_encoder),
        train_size=20,
        space=place / "space.yaml",
        settings={"epochs": 1},
    )
    options = RunOptions(
        study="mine", storage=place / "storage", seeds=2, configs=2, rule="mean", gpus_per_trial=0
    )
    with in_process():
        run(spec, options, Console(quiet=True))
        other = replace(options, study="other", tracking="none")
        run(replace(spec, search_seed=1), other, Console(quiet=True))
    return place


@pytest.fixture
def storage(whole: Path, folder: Path) -> Path:
    """Return a copy of the storage in the current folder."""
    return Path(shutil.copytree(whole / "storage", folder / "storage"))


@pytest.fixture
def search(whole: Path, tiny_encoder: Path) -> tuple[str, ...]:
    """Return the command of the first search."""
    return (
        *("tune", "--method", "scl", "--task", "demo", "--train-size", "20", "--seeds", "2"),
        *("--rule", "mean", "--configs", "2", "--space", str(whole / "space.yaml")),
        *("--model", str(tiny_encoder), "--set", "epochs=1", "--gpus-per-trial", "0"),
        *("--study", "mine", "--storage", "storage"),
    )
