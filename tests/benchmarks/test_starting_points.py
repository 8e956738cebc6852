"""Tests of the page with the best configurations for MiniLM."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import starting_points

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_command_prints() -> None:
    command = [sys.executable, "-m", "benchmarks.starting_points"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.stderr.decode() == ""
    page = (ROOT / "benchmarks/starting_points.md").read_text(encoding="utf-8")
    assert done.stdout.decode() == page


def test_the_best_of_six_configurations_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = starting_points.ranked("ce")
    means = [scores.mean() for _, scores in found]
    assert means == sorted(means, reverse=True)
    points = {(values["learning_rate"], values["head_lr_mult"]) for values, _ in found}
    assert points == {(rate, mult) for rate in (1e-4, 2e-4, 4e-4) for mult in (1.0, 10.0)}
