"""Tests of benchmarks/evidence.md: its tables, its statistics, its verdicts and its commands."""

import os
import re
import shlex
import shutil
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer.main

from benchmarks.evidence.__main__ import PAGE
from benchmarks.evidence.claims import CLAIMS, FEWSHOT, FOLDER, FRESH, sides_of
from benchmarks.evidence.page import results
from benchmarks.evidence.records import stored_frames
from sclsearch.cli import app
from sclsearch.reports.comparison_tables import compared
from sclsearch.selection.significance import ALPHA, compare, holm
from sclsearch.spaces.load import load_space

ROOT = Path(__file__).parents[2]
WriteStudy = Callable[..., Path]

WITHOUT_RAY = """
import runpy, sys
runpy.run_module("benchmarks.evidence", run_name="__main__")
assert not {"ray", "transformers"} & sys.modules.keys()
"""
SEEDS = string.ascii_letters[:30]


def test_the_tables_of_the_page_are_those_of_the_stored_seed_runs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    stored = (ROOT / PAGE).read_text(encoding="utf-8")
    shortened = re.sub(r"(?m)(^\|.*\n)+", "| no table |\n", stored)
    assert shortened != stored
    (tmp_path / PAGE).write_text(shortened, encoding="utf-8")
    command = [sys.executable, "-c", WITHOUT_RAY]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == stored


def table_lines(text: str) -> list[list[str]]:
    """Return the cells of the lines of tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_statistics_and_the_table_in_readme_equal_those_of_the_stored_seed_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    found = results(stored_frames())
    expected: dict[str, dict[str, str]] = {}
    for one in found:
        studies = one.claim.reference.study, one.claim.better.study
        files = [pd.read_csv(FOLDER / f"{study}.csv") for study in studies]
        reference, better = (
            file[file["kind"] == "confirm"].set_index("replicate")["test"] for file in files
        )
        assert len(better) == FRESH
        assert one.comparison.difference == pytest.approx((better - reference).mean())
        assert one.comparison == compare(better.tolist(), reference[better.index].tolist())
        side = one.claim.better
        if one.claim.reference.method == "ce" and side.protocol == FEWSHOT:
            difference, interval, *_ = compared(one.comparison, one.adjusted)
            bold = "**" * (one.adjusted <= ALPHA)
            row = expected.setdefault(f"{side.task}, {side.size}", {})
            row[f"`{side.name}`"] = f"{bold}{difference}{bold} ({interval})"
    assert [one.adjusted for one in found] == holm([one.comparison.p for one in found])
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Does contrast pay?")[2]
    header, _, *rows = table_lines(section.partition("\n## ")[0])
    assert expected == {
        condition: {m: cell for m, cell in zip(header[1:], row, strict=True) if cell}
        for condition, *row in rows
    }


def test_the_commands_of_the_sides_parse_and_search_equal_budgets() -> None:
    group: Any = typer.main.get_command(app)
    for side in sides_of(CLAIMS):
        space = load_space(ROOT / FOLDER / f"{side.method}.yaml", side.method)
        assert space.size() == 6
        for _, name, *words in map(shlex.split, side.commands(Path("a b"))):
            parsed = group.commands[name].make_context(name, words).params
            assert name == "augment" or str(parsed["storage"]) == "a b"
