"""Tests of the page on starting points."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_command_prints_the_stored_page() -> None:
    command = [sys.executable, "-m", "benchmarks.starting_points"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.stderr.decode() == ""
    page = (ROOT / "benchmarks/starting_points.md").read_text(encoding="utf-8")
    assert done.stdout.decode() == page
