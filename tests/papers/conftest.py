"""Fixtures: an encoder that a test may change, and run options."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.study.spec import RunOptions

QUIET = Console(quiet=True)


@pytest.fixture
def small(tmp_path: Path, tiny_encoder: Path) -> Path:
    """Return a tiny encoder that the test may change."""
    return shutil.copytree(tiny_encoder, tmp_path / "encoder")


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        storage=tmp_path / "storage", gpus_per_trial=0, tracking="none", concurrency=1
    )
