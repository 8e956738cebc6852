"""Tests of benchmarks/evidence.md: its tables, its statistics, its verdicts and its commands."""

import math
import os
import re
import shlex
import shutil
import string
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer.main

from benchmarks.evidence.__main__ import PAGE
from benchmarks.evidence.claims import CLAIMS, FEWSHOT, FOLDER, FRESH, IMBALANCED, sides_of
from benchmarks.evidence.page import Result, results
from benchmarks.evidence.records import stored_frames
from sclsearch.cli import app
from sclsearch.papers.tables import published_tables, select_cells
from sclsearch.reports.comparison_tables import compared
from sclsearch.selection.significance import ALPHA, Comparison, compare, holm
from sclsearch.spaces.load import load_space
from sclsearch.spaces.space import Choice
from sclsearch.store.studies import NAME

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


def test_verdicts() -> None:
    for difference, interval, adjusted, published, expected in (
        (0.02, (0.01, 0.03), 0.05, None, "holds"),
        (-0.02, (-0.03, -0.01), 0.05, None, "does not hold"),
        (0.0, (-0.01, 0.01), 0.5, 0.02, "does not hold"),
        (0.0, (-0.01, 0.02), 0.5, 0.02, "inconclusive"),
        (0.0, (-0.01, 0.01), 0.5, None, "inconclusive"),
        (0.02, (0.001, 0.04), 0.06, 0.02, "inconclusive"),
    ):
        found = Comparison(30, 0, 0, difference, 0.01, interval, adjusted, adjusted)
        claim = replace(CLAIMS[0], published=published)
        assert Result(claim, found, adjusted).verdict == expected


def test_sides_have_equal_budgets_studies_of_their_own_and_valid_commands() -> None:
    sides = sides_of(CLAIMS)
    assert len({side.study for side in sides}) == len(sides)
    group: Any = typer.main.get_command(app)
    for side in sides:
        assert NAME.fullmatch(side.study)
        space = load_space(ROOT / FOLDER / f"{side.method}.yaml", side.method)
        choices = [one for one in space.parameters.values() if isinstance(one, Choice)]
        assert len(choices) == len(space.parameters) == 2, side
        assert math.prod(len(one.values) for one in choices) == 6, side
        *_, search, confirmation = map(shlex.split, side.commands(Path("a b")))
        for _, name, *words in (search, confirmation):
            parsed = group.commands[name].make_context(name, words).params
            assert side.study in (parsed.get("study"), *parsed.get("studies", ()))
            assert str(parsed["storage"]) == "a b"
            if name == "tune":
                drawn = side.protocol != IMBALANCED
                assert parsed["train_size"] == (side.size if drawn else None)


def test_published_differences_equal_those_of_the_published_tables() -> None:
    rows = {"scl": "CE + SCL", "tapt": "TAPT", "cmlm": "CMLM"}
    claims = [one for one in CLAIMS if one.published is not None]
    assert len(claims) == 5
    for claim in claims:
        gunel = claim.better.method == "scl"
        table = published_tables()["gunel/table-4" if gunel else "cmlm/table-1"]
        base = "CE" if gunel else "FT"
        names = [rows.get(side.method, base) for side in (claim.better, claim.reference)]
        size = claim.better.size
        lines = [select_cells(table, [f"N={size},{name},SST-2"])[0] for name in names]
        better, reference = (table.as_metric(cell)[0] for cell in lines)
        assert better is not None
        assert reference is not None
        assert claim.published == pytest.approx(better - reference)
