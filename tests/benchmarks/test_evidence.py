"""Tests of benchmarks/evidence.md: its command, its statistics and its verdicts."""

import math
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer.main

import sclsearch
from benchmarks.evidence.__main__ import main
from benchmarks.evidence.records import stored_frames
from benchmarks.evidence.results import LOGISTIC, paired, results, verdict
from benchmarks.evidence.rows import FEWSHOT, FOLDER, FRESH, IMBALANCED, MODEL, ROWS, sides_of
from sclsearch.cli import app
from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison_tables import compared, points
from sclsearch.selection.significance import ALPHA, Comparison, compare, holm
from sclsearch.spaces.load import load_space
from sclsearch.spaces.space import Choice
from sclsearch.store.studies import NAME, StudyStore

ROOT = Path(__file__).parents[2]
WriteStudy = Callable[..., Path]

WITHOUT_RAY = """
import runpy, sys
runpy.run_module("benchmarks.evidence", run_name="__main__")
assert not {"ray", "transformers"} & sys.modules.keys()
"""
SEEDS = string.ascii_letters[:30]


def test_the_command_prints_the_stored_page() -> None:
    command = [sys.executable, "-c", WITHOUT_RAY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.stderr.decode() == ""
    assert done.stdout.decode() == (ROOT / "benchmarks/evidence.md").read_text(encoding="utf-8")


def table_lines(text: str) -> list[list[str]]:
    """Return the cells of the lines of tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_statistics_and_the_table_in_readme_equal_those_of_the_stored_seed_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    found = results(MODEL, stored_frames(MODEL))
    expected: dict[str, dict[str, str]] = {}
    for one in found:
        files = [pd.read_csv(FOLDER / f"{study}.csv") for study in one.row.studies(MODEL)]
        reference, better = (
            file[file["kind"] == "confirm"].set_index("replicate")["test"] for file in files
        )
        assert len(better) == FRESH
        assert one.comparison.difference == pytest.approx((better - reference).mean())
        assert one.comparison == compare(better.tolist(), reference[better.index].tolist())
        side = one.row.better
        if one.row.reference.method == "ce" and side.protocol == FEWSHOT:
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


def write_side(write_study: WriteStudy, method: str, gain: int) -> Path:
    """Write a search of two configurations with ten seeds, and its confirmation on 30."""

    def scores(count: int, gain: int) -> list[tuple[int, int]]:
        return [(50 + seed % 7 + gain, 52 + seed % 5 + gain * (seed % 4)) for seed in range(count)]

    name = f"{method}-sst2-20"
    search = {"name": name, "rows": {"train": SEEDS[:10], "test": "t"}, "notes": ("test: a half",)}
    storage = write_study(scores(10, -9), scores(10, gain), method=method, **search)
    fresh = {"confirms": name, "fresh": 10, "values": [{"tau": 0.2}], "name": f"{name}-fresh"}
    fresh["rows"] = {"train": SEEDS, "test": "t"}
    write_study(scores(30, gain), method=method, **fresh)
    baseline = {split: {"confusion": [[51, 49], [0, 0]]} for split in ("validation", "test")}
    found = dict.fromkeys(("majority class", LOGISTIC), baseline)
    StudyStore(storage, f"{name}-fresh").save_baselines(dict.fromkeys(range(30), found))
    return storage


def cells(page: str, start: str) -> list[str]:
    """Return the cells of the table line that begins with a text."""
    (line,) = [line for line in table_lines(page) if line[0].startswith(start)]
    return line


def test_the_page_of_a_storage_has_the_values_of_compare(
    write_study: WriteStudy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def printed(*options: str) -> tuple[str, str]:
        monkeypatch.setattr("sys.argv", ["evidence", *options])
        main()
        done = capsys.readouterr()
        return done.out, done.err

    monkeypatch.chdir(tmp_path)
    FOLDER.mkdir(parents=True)
    write_side(write_study, "ce", 0)
    storage = write_side(write_study, "scl", 2)
    page, errors = printed("--storage", str(storage))
    assert not errors
    assert printed() == (page, "")
    fresh = sclsearch.compare("ce-sst2-20-fresh", "scl-sst2-20-fresh", storage=storage).studies
    assert fresh[1].comparison is not None
    expected = compared(fresh[1].comparison, fresh[1].comparison.p)
    means = [f"{100 * (fresh[n].test_mean or 0):.1f}" for n in (1, 0)]
    row = cells(page, "[Gunel et al.]")
    assert row[1:8] == ["sst2", "20", *means, "51.0", "51.0", ""]
    assert tuple(row[8:14]) == tuple(cell.replace("0.000", "< 0.001") for cell in expected)
    assert row[-2:] == ["+2.2", "**holds**"]
    search = sclsearch.compare("ce-sst2-20", "scl-sst2-20", storage=storage).studies[1]
    assert search.comparison is not None
    difference, interval, pairs, *_ = compared(search.comparison, 1.0)
    searched = points(search.search_interval)
    assert cells(page, "`scl-ce-sst2-20`")[1:] == [difference, interval, searched, pairs]
    assert "- sst2, 20: test: a half; all seeds have the same test rows." in page
    top = sclsearch.select("scl-sst2-20", rule="top-3", storage=storage).winner
    assert top is not None
    assert top.test_mean is not None
    tops = page.partition("## The top 3 of 10")[2].partition("\n## ")[0]
    _, every, _, tens, _ = cells(tops, "`scl-sst2-20`")
    assert every == means[0]
    assert tens.split(", ")[0] == f"{100 * top.test_mean:.1f}"  # the same scores as in the search


def test_sides_with_different_rows_are_an_error() -> None:
    names = ("study", "kind", "replicate", "test", "train_rows", "test_rows")
    side = pd.DataFrame([("a", "confirm", 0, 0.5, "r", "t")], columns=names)
    for name, value in (("replicate", 1), ("train_rows", "s"), ("test_rows", "u")):
        with pytest.raises(SclsearchError, match=f"a and a: must have the same {name}"):
            paired(side, side.assign(**{name: value}))


@pytest.mark.parametrize(
    ("difference", "interval", "adjusted", "published", "expected"),
    [
        (0.02, (0.01, 0.03), 0.05, None, "holds"),
        (-0.02, (-0.03, -0.01), 0.05, None, "does not hold"),
        (0.0, (-0.01, 0.01), 0.5, 0.02, "does not hold"),
        (0.0, (-0.01, 0.02), 0.5, 0.02, "inconclusive"),
        (0.0, (-0.01, 0.01), 0.5, None, "inconclusive"),
        (0.02, (0.001, 0.04), 0.06, 0.02, "inconclusive"),
    ],
)
def test_verdicts(
    difference: float,
    interval: tuple[float, float],
    adjusted: float,
    published: float | None,
    expected: str,
) -> None:
    found = Comparison(30, 0, 0, difference, 0.01, interval, adjusted, adjusted)
    assert verdict(found, adjusted, published) == expected


@pytest.mark.parametrize("model", ["minilm", "roberta-base"])
def test_sides_have_equal_budgets_studies_of_their_own_and_valid_commands(model: str) -> None:
    sides = sides_of(ROWS)
    assert len({side.study(model) for side in sides}) == len(sides)
    group: Any = typer.main.get_command(app)
    for side in sides:
        assert NAME.fullmatch(side.study(model))
        space = load_space(ROOT / FOLDER / f"{side.method}.yaml", side.method)
        choices = [one for one in space.parameters.values() if isinstance(one, Choice)]
        assert len(choices) == len(space.parameters) == 2, side
        assert math.prod(len(one.values) for one in choices) == 6, side
        for _, name, *words in (side.search(model, Path()), side.confirmation(model, Path())):
            parsed = group.commands[name].make_context(name, words).params
            assert parsed["study"] == side.study(model)
            if name == "tune":
                drawn = side.protocol != IMBALANCED
                assert parsed["train_size"] == (side.size if drawn else None)
    published = {row.name: row.published for row in ROWS if row.table}
    assert published["scl-ce-sst2-20"] == pytest.approx(0.022)  # from the published table
