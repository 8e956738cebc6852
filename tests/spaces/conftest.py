"""Fixtures of the search space tests: a valid file that uses every section."""

from pathlib import Path

import pytest

GOOD = """
method: supcl-seq
source: Sedghamiz et al. 2021
published:
  - {dropouts: [0, 0.1], probe_learning_rate: 1e-3, batch_size: 16}
  - {dropouts: [0.1, 0.1], probe_learning_rate: 1e-2}
fixed: {batch_size: 16, tau: 1}
space:
  dropouts: {type: choice, values: [[0, 0.1], [0.1, 0.1]]}
  probe_learning_rate: {type: log, low: 1e-4, high: 1e-2}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.yaml"


@pytest.fixture
def good() -> str:
    return GOOD
