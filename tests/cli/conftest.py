"""Fixtures: the command line in a folder that holds only a tiny encoder."""

import shutil
from pathlib import Path

import pytest

from sclsearch.study.spec import RunOptions, StudySpec
from tests.conftest import Call
from tests.studies import finish, rising

SEARCH = ("tune", "--method", "scl", "--task", "demo", "--model", "./encoder")
TOTALS = ("--configs", "2", "--seeds", "2", "--tracking", "none")
SPACE = """
method: scl
source: mine
published:
  - {tau: 0.3, lam: 0.9}
fixed: {learning_rate: 1.0e-5}
space:
  tau: {type: log, low: 0.1, high: 0.7}
  lam: {type: choice, values: [0.5, 0.9]}
"""


@pytest.fixture
def workdir(folder: Path, tiny_encoder: Path) -> Path:
    """Return the current folder, which holds only a tiny `encoder`."""
    return Path(shutil.copytree(tiny_encoder, folder / "encoder")).parent


@pytest.fixture
def sclsearch(workdir: Path, sclsearch: Call) -> Call:
    """Return a function that runs the command in this process, in the folder with the encoder."""
    return sclsearch


@pytest.fixture
def storage(workdir: Path) -> Path:
    """Return the path of the default storage, which does not exist yet."""
    return workdir / "sclsearch-storage"


@pytest.fixture
def space(workdir: Path) -> Path:
    """Return a custom space file in the current folder."""
    path = workdir / "mine.yaml"
    path.write_text(SPACE)
    return path


def finish_study(method: str, name: str, failing: tuple[int, int] | None = None) -> None:
    """Store made-up seed runs of two configurations and seeds; later ones score higher."""
    spec = StudySpec(method=method, task="demo", model="./encoder")
    options = RunOptions(study=name, configs=2, seeds=2)
    finish(spec, options, lambda *one: None if one == failing else rising(*one), seconds=2.0)


@pytest.fixture
def finished(workdir: Path) -> tuple[str, ...]:
    """Return the command of a search whose seed runs are all stored, one of them failed."""
    finish_study("scl", "mine", failing=(1, 1))
    return (*SEARCH, "--study", "mine", *TOTALS)
