"""Tests of the page on starting points."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.starting_points import LOGISTIC, regrets

ROOT = Path(__file__).parents[2]


def test_the_command_prints_the_stored_page() -> None:
    command = [sys.executable, "-m", "benchmarks.starting_points"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.stderr.decode() == ""
    page = (ROOT / "benchmarks/starting_points.md").read_text(encoding="utf-8")
    assert done.stdout.decode() == page


def test_validation_picks_by_score_and_then_by_loss() -> None:
    rows = [("ce", 1, 10, 0.9, 0.7, 0.3), ("ce", 2, 10, 0.9, 0.8, 0.2)]
    rows += [("ce", 4, 10, 0.8, 0.9, 0.1), (LOGISTIC, 1, 0, 0.5, 0.6, 0.0)]
    names = ["method", "factor", "other", "validation", "test", "validation_loss"]
    frame = pd.DataFrame(rows, columns=names).assign(encoder="e", data="d", seed=0, length=1)
    found = regrets(frame).iloc[0]
    assert (found["start"], found["picked"], found["best"]) == pytest.approx((0.7, 0.8, 0.9))
    assert (found["frozen"], found["configurations"]) == (0.6, 3)
