"""Tests of the command `simulate` on a table of scores."""

import json
from pathlib import Path

import pytest

from tests.workspace import Call

SCORES = str(Path(__file__).parents[2] / "benchmarks" / "scores" / "sst2-100.csv")


def test_a_table_of_scores_is_simulated(sclsearch: Call) -> None:
    options = ("--searches", "2", "--slots", "2,8", "--race", "off,0.05", "--rule", "mean")
    result = sclsearch("simulate", SCORES, *options)
    assert result.returncode == 0
    rows = [line.split() for line in result.stdout.splitlines() if "sst2-100" in line]
    assert [row[1:4] for row in rows] == [
        ["mean", "off", "2"],
        ["mean", "off", "8"],
        ["mean", "0.05", "2"],
        ["mean", "0.05", "8"],
    ]
    assert rows[0][4] == "100%"
    assert int(rows[2][4].rstrip("%")) < 60
    assert max(map(len, result.stdout.splitlines())) <= 80
    found = json.loads(sclsearch("simulate", SCORES, *options, "--json").stdout)["simulations"]
    assert [one["slots"] for one in found] == [2, 8, 2, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--race", "2"), "--race: must be off, or from 0 to below 1, got 2.0."),
        (("--race", "x"), "--race: must be off, or from 0 to below 1, got 'x'."),
        (("--slots", "0"), "--slots: must be at least 1, got 0."),
    ],
)
def test_invalid_options_are_refused(
    sclsearch: Call, options: tuple[str, str], message: str
) -> None:
    result = sclsearch("simulate", SCORES, *options)
    assert (result.returncode, result.stderr) == (2, f"{message}\n")
