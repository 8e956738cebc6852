"""Tests of the printed scores, costs, confirmations and spreads."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.papers.confirm import show_confirmation
from sclsearch.papers.reproduce import (
    CellScore,
    PlannedCell,
    StudyCost,
    distinct_studies,
    plan_cells,
)
from sclsearch.papers.tables import Table, published_tables, select_cells
from sclsearch.papers.terminal import show_costs, show_scores
from sclsearch.reports.report import report
from sclsearch.search.plan import MEASURED, STORED, Estimate
from sclsearch.study.spec import RunOptions, StudySpec
from tests.finished import Confusion, finish, repeated_spec
from tests.papers.conftest import lines, printed

NOTES = ("model minilm, not bert-base", "scaled: at most 150 updates a stage")


def laptop(table: Table, *selectors: str) -> list[PlannedCell]:
    return plan_cells(table, select_cells(table, selectors), RunOptions(), scale="laptop")


def made_up_scores(planned: Sequence[PlannedCell], table: Table) -> list[CellScore]:
    """Return a score for each cell that has a study, 5 points below the published one."""
    scores = []
    for number, one in enumerate(planned):
        if one.spec is None:
            scores.append(CellScore(one.cell, reason=one.reason))
            continue
        mean = table.as_metric(one.cell)[0] - 0.05
        tests = (None, mean - 0.01 * number, mean + 0.01 * number)
        scores.append(
            CellScore(one.cell, mean, 0.0141, mean, "top-3", tests, seeds=3, study="s", notes=NOTES)
        )
    return scores


@pytest.mark.parametrize("name", [name for name, t in published_tables().items() if t.cells])
def test_each_table_fits_80_columns_with_whole_names(name: str) -> None:
    table = published_tables()[name]
    planned = laptop(table)
    cost = StudyCost("s", 600, 300, Estimate(4e5, 2, MEASURED))
    costs = [(one, cost) for one in distinct_studies(planned)]
    scores = printed(show_scores, table, made_up_scores(planned, table)).splitlines()
    assert all(len(line) <= 80 for line in scores)
    assert all(len(line) <= 80 for line in printed(show_costs, costs, planned).splitlines())
    for cell in (one.cell for one in planned if one.spec):
        assert any(cell.row.name in line and cell.column.name.split()[0] in line for line in scores)


def test_scores_are_printed_beside_the_published_ones(demo: Table) -> None:
    whole = printed(show_scores, demo, made_up_scores(laptop(demo), demo))
    text = lines(whole)
    assert text[:3] == [
        "some/table-1 The demo",
        "published: mean of the top 3",
        "ours: rule top-3, test scores in points",
    ]
    for line in (
        "row column ours published diff all seeds",
        "CE Demo 45.0 ± 1.4 50.0 ± 1.0 -5.0 45.0 2/3",
        "CE + SCL Demo 55.0 ± 1.4 60.0 -5.0 55.0 2/3",
        "Rows against CE, over all seeds",
        "- N=20, CE, Mean and 1 more: a mean of other cells",
        "- N=20, Theirs, Demo: not a method of sclsearch",
        *(f"- {note}" for note in (*NOTES, "Table 3 says 51, the text 15")),
    ):
        assert text.count(line) == 1, line
    assert any(
        line.startswith("Demo CE + SCL +10.0") and line.endswith("0.500 0.500") for line in text
    )
    limit = "2 pairs cannot go below p = 0.5: too few to show a difference at 0.05, which takes 6."
    assert limit in " ".join(whole.split())


def test_a_table_without_scores_shows_reasons_and_no_empty_grid() -> None:
    table = published_tables()["gunel/table-2"]
    planned = laptop(table, "Avg")
    text = printed(show_scores, table, made_up_scores(planned, table))
    assert "diff" not in text
    assert "Differences from the paper" not in text
    assert "full, CE, Avg and 1 more: a mean of other cells" in " ".join(text.split())
    assert "condition" not in printed(show_costs, [], planned)


def test_a_study_is_named_by_its_own_task() -> None:
    planned = laptop(published_tables()["gunel/table-7"], "CE,Yelp-2")
    costs = [(one, StudyCost("s", 6, 6)) for one in distinct_studies(planned)]
    text = lines(printed(show_costs, costs, planned))
    assert text[1:3] == ["CE sst2 6 6 unknown", "CE yelp2 6 6 unknown"]


def test_costs_are_seed_runs_and_time_or_a_reason(demo: Table) -> None:
    planned = laptop(demo)
    one, other = distinct_studies(planned)
    costs = [
        (one, StudyCost("s", 6, 4, Estimate(600.0, 2, MEASURED))),
        (other, StudyCost(reason="no [file]")),
    ]
    text = lines(printed(show_costs, costs, planned))
    assert "CE demo 6 4 10 min" in text
    assert "1 study, 6 seed runs, 4 of them to train; time: 10 min" in " ".join(text)
    assert "- N=20, CE + SCL, Demo: no [file]" in text


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (
            (Estimate(600.0, 2, STORED), Estimate(1200.0, 2, MEASURED)),
            f"6 of them to train; time: 30 min, 2 seed runs at a time, by {STORED} or {MEASURED}.",
        ),
        (
            (Estimate(600.0, 2, STORED), Estimate(None, 2, "x.json: it is no model")),
            f"time: at least 10 min, 2 seed runs at a time, by {STORED}. "
            "- time unknown: x.json: it is no model",
        ),
        ((Estimate(0.0, 2, ""), Estimate(0.0, 2, "")), "0 of them to train; time: 0 min."),
    ],
    ids=["known", "one unknown", "none missing"],
)
def test_times_are_added_up_with_their_bases(
    demo: Table, times: tuple[Estimate, ...], expected: str
) -> None:
    planned = laptop(demo)
    costs = [StudyCost("s", 6, 3 if time.basis else 0, time) for time in times]
    studies = zip(distinct_studies(planned), costs, strict=True)
    assert expected in " ".join(printed(show_costs, list(studies), planned).split())


def test_a_confirmation_has_three_scores_and_the_difference(
    small: Path, options: RunOptions
) -> None:
    def scored(*correct: int | None) -> Callable[[int, int], Confusion | None]:
        found = [None if n is None else [[n - 50, 100 - n], [0, 50]] for n in correct]
        return lambda _, replicate: found[replicate]

    spec = StudySpec(method="scl", task="demo", model=str(small), searched=False)
    finish(spec, replace(options, study="mine", seeds=3, rule="top-2"), scored(80, 70, 60))
    fresh = repeated_spec(options.storage, "mine", fresh=3, first_fresh=3)
    name = finish(fresh, options, scored(70, None, 60))
    found = (report(options.storage, "mine"), report(options.storage, name))
    assert lines(printed(show_confirmation, *found)) == [
        "Winner #0 of mine, test accuracy",
        "as chosen 0.7500 ± 0.0707, rule top-2",
        "all its seeds 0.7000 ± 0.1000, mean of 3 seeds",
        "fresh seeds 0.6500 ± 0.0707, mean of 2 of 3 seeds",
        "fresh - chosen -0.1000",
        f"stored as the study {name}",
    ]
    splits = tuple({"train": name, "test": ""} for name in "abc")
    shared = (replace(one, rows=splits) for one in found)
    assert "the new seeds share the search's rows" in printed(show_confirmation, *shared)


def test_a_confirmation_whose_seeds_all_failed_has_the_first_failure(
    small: Path, options: RunOptions
) -> None:
    spec = StudySpec(method="scl", task="demo", model=str(small), searched=False)
    finish(spec, replace(options, study="mine", seeds=2), lambda *_: [[30, 20], [10, 40]])
    fresh = repeated_spec(options.storage, "mine", fresh=2, first_fresh=2)
    name = finish(fresh, options, lambda *_: None)
    reports = report(options.storage, "mine"), report(options.storage, name)
    text = printed(show_confirmation, *reports)
    assert "No configuration finished a seed run; 2 failed.\n  first failure: " in text
