"""Tests of the printed scores and costs of a reproduction."""

from collections.abc import Sequence

import pytest

from sclsearch.papers.reproduce import (
    CellScore,
    PlannedCell,
    plan_cells,
)
from sclsearch.papers.tables import Table, select_cells
from sclsearch.papers.terminal import show_scores
from sclsearch.study.spec import RunOptions
from tests.papers.conftest import lines

NOTES = ("model minilm, not bert-base", "scaled: at most 150 updates a stage")


@pytest.fixture
def planned(demo: Table) -> list[PlannedCell]:
    return plan_cells(demo, select_cells(demo, []), RunOptions(), scale="laptop")


def made_up_scores(planned: Sequence[PlannedCell], table: Table) -> list[CellScore]:
    """Return a score for each cell that has a study, 5 points below the published one."""
    scores = []
    for number, one in enumerate(planned):
        if one.spec is None:
            scores.append(CellScore(one.cell, reason=one.reason))
            continue
        mean = (table.as_metric(one.cell)[0] or 0.0) - 0.05
        tests = (None, mean - 0.01 * number, mean + 0.01 * number)
        scores.append(
            CellScore(one.cell, mean, 0.0141, mean, "top-3", tests, seeds=3, study="s", notes=NOTES)
        )
    return scores


def test_scores_are_printed_beside_the_published_ones(
    demo: Table, planned: list[PlannedCell]
) -> None:
    text = lines(show_scores, demo, made_up_scores(planned, demo))
    for line in (
        "row column ours published diff all seeds",
        "CE Demo 45.0 ± 1.4 50.0 ± 1.0 -5.0 45.0 2/3",
        "CE + SCL Demo 55.0 ± 1.4 60.0 -5.0 55.0 2/3",
        "- N=20, CE, Mean and 1 more: a mean of other cells",
        "- N=20, Theirs, Demo: not a method of sclsearch",
        *(f"- {note}" for note in (*NOTES, "Table 3 says 51, the text 15")),
    ):
        assert text.count(line) == 1, line
    (compared,) = (line for line in text if line.startswith("Demo CE + SCL +10.0"))
    assert compared.endswith("0.500 0.500")
    assert "With 2 pairs the smallest possible p is 0.5." in " ".join(text)
