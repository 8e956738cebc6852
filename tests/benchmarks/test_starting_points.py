"""Tests of benchmarks/starting_points.md and of the spaces for MiniLM."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import starting_points
from sclsearch.spaces.load import find_space, load_space

ROOT = Path(__file__).parents[2]


def test_the_command_prints_the_stored_page() -> None:
    command = [sys.executable, "-m", "benchmarks.starting_points"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.stderr.decode() == ""
    page = (ROOT / "benchmarks/starting_points.md").read_text(encoding="utf-8")
    assert done.stdout.decode() == page


@pytest.mark.parametrize("method", starting_points.METHODS)
def test_the_space_for_minilm_begins_with_the_best_stored_configuration(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    point = starting_points.starting_points()[method]
    space = load_space(find_space(method, "sst2"), method, "minilm")
    published = space.published[0]
    expected = {name: json.loads(str(value)) for name, value in point.items()}
    assert {name: json.loads(json.dumps(published[name])) for name in expected} == expected
