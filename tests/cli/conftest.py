"""Fixtures: the command line in a folder that holds only a tiny encoder."""

import shutil
from pathlib import Path

import pytest

from sclsearch.study.spec import RunOptions, StudySpec
from tests.studies import finish, rising

SEARCH = ("tune", "--method", "scl", "--task", "demo", "--model", "./encoder")
TOTALS = ("--configs", "2", "--seeds", "2", "--tracking", "none")


@pytest.fixture(autouse=True)
def workdir(folder: Path, tiny_encoder: Path) -> Path:
    """Return the current folder, which holds only a tiny `encoder`."""
    return Path(shutil.copytree(tiny_encoder, folder / "encoder")).parent


@pytest.fixture
def storage(workdir: Path) -> Path:
    """Return the path of the default storage, which does not exist yet."""
    return workdir / "sclsearch-storage"


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
