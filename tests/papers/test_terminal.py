"""What is printed fits 80 columns and says how each figure came about."""

from collections.abc import Sequence

import pytest

from sclsearch.papers.base import Table
from sclsearch.papers.chosen import chosen_cells
from sclsearch.papers.figures import Figure, Work
from sclsearch.papers.plan import PlannedCell, Wishes, plan_cells, studies_of
from sclsearch.papers.tables import published_tables
from sclsearch.papers.terminal import show_figures, show_work
from sclsearch.search.estimate import MEASURED, STORED, Estimate
from sclsearch.study.spec import RunOptions
from tests.papers.conftest import Printed, lines

NOTES = ("model minilm, not bert-base", "scaled: at most 150 updates a stage")


@pytest.fixture
def laptop(options: RunOptions) -> Wishes:
    return Wishes(options=options, scale="laptop")


def configuration_score(planned: Sequence[PlannedCell], table: Table) -> list[Figure]:
    """Returns a figure for each cell that has a study, 5 points below the published one."""
    figures = []
    for number, one in enumerate(planned):
        if one.spec is None:
            figures.append(Figure(one.cell, reason=one.reason))
            continue
        mean = table.as_metric(one.cell)[0] - 0.05
        tests = (None, mean - 0.01 * number, mean + 0.01 * number)
        figures.append(
            Figure(one.cell, mean, 0.0141, mean, "top-3", tests, seeds=3, study="s", notes=NOTES)
        )
    return figures


@pytest.mark.parametrize("name", [name for name, t in published_tables().items() if t.cells])
def test_every_table_fits_80_columns_with_whole_names(
    name: str, laptop: Wishes, printed: Printed
) -> None:
    table = published_tables()[name]
    planned = plan_cells(table, table.cells, laptop)
    works = [(one, Work("s", 600, 300, Estimate(4e5, 2, MEASURED))) for one in studies_of(planned)]
    text = printed(show_figures, table, configuration_score(planned, table))
    work = printed(show_work, works, planned)
    assert all(len(line) <= 80 for line in (*text.splitlines(), *work.splitlines()))
    made = [one.cell for one in planned if one.spec]
    for cell in made:
        assert any(
            cell.row.name in line and cell.column.name.split()[0] in line
            for line in text.splitlines()
        )


def test_times_are_added_up_and_rest_on_something(
    demo: Table, laptop: Wishes, printed: Printed
) -> None:
    ones = list(studies_of(plan_cells(demo, demo.cells, laptop)))

    def told(*times: Estimate) -> str:
        works = [Work("s", 6, 3 if time.basis else 0, time) for time in times]
        return " ".join(printed(show_work, list(zip(ones, works, strict=True)), ones).split())

    assert len(ones) == 2
    both = told(Estimate(600.0, 2, STORED), Estimate(1200.0, 2, MEASURED))
    assert (
        "2 studies, 12 seed runs, 6 of them to train; time: 30 min, 2 seed runs at a time, by "
        f"{STORED} or {MEASURED}." in both
    )
    one = told(Estimate(600.0, 2, STORED), Estimate(None, 2, "x.json: it is no model"))
    assert "3 10 min" in one
    assert f"time: at least 10 min, 2 seed runs at a time, by {STORED}." in one
    assert "- time unknown: x.json: it is no model" in one
    assert told(Estimate(0.0, 2, ""), Estimate(0.0, 2, "")).endswith("to train; time: 0 min.")


def test_figures_stand_beside_the_published_ones(
    demo: Table, laptop: Wishes, printed: Printed
) -> None:
    planned = plan_cells(demo, demo.cells, laptop)
    text = lines(printed(show_figures, demo, configuration_score(planned, demo)))
    assert text[:3] == [
        "some/table-3 The demo",
        "published: mean of the top 3",
        "ours: rule top-3, test figures in points",
    ]
    assert "row column ours published diff all seeds" in text
    assert "CE Demo 45.0 ± 1.4 50.0 ± 1.0 -5.0 45.0 2/3" in text
    assert "CE + SCL Demo 55.0 ± 1.4 60.0 -5.0 55.0 2/3" in text
    assert not any(line.startswith("Theirs") for line in text)


def test_rows_are_compared_and_the_limits_of_few_seeds_told(
    demo: Table, laptop: Wishes, printed: Printed
) -> None:
    planned = plan_cells(demo, demo.cells, laptop)
    whole = printed(show_figures, demo, configuration_score(planned, demo))
    text = lines(whole)
    assert "Rows against CE, over all seeds" in text
    assert any(
        line.startswith("Demo CE + SCL +10.0") and line.endswith("0.500 0.500") for line in text
    )
    told = "2 pairs cannot go below p = 0.5: too few to show a difference at 0.05, which takes 6."
    assert told in " ".join(whole.split())
    (alone,) = (
        figure
        for figure in configuration_score(planned, demo)
        if figure.cell.column.name == "Minor"
    )
    assert "Rows against" not in printed(show_figures, demo, [alone])


def test_scale_errata_and_reasons_are_told_once(
    demo: Table, laptop: Wishes, printed: Printed
) -> None:
    planned = plan_cells(demo, demo.cells, laptop)
    text = lines(printed(show_figures, demo, configuration_score(planned, demo)))
    for note in (*NOTES, "Table 3 says 51, the text 15"):
        assert text.count(f"- {note}") == 1
    assert "- N=20, CE, Mean and 1 more: a mean of others" in text
    assert "- N=20, Theirs, Demo and 1 more: published only" not in text
    assert any(line.startswith("- N=20, Theirs, Demo: published only") for line in text)


def test_a_table_of_which_nothing_is_made_says_why_and_shows_no_empty_grid(
    printed: Printed, laptop: Wishes
) -> None:
    table = published_tables()["gunel/table-2"]
    planned = plan_cells(table, chosen_cells(table, ["Avg"]), laptop)
    text = printed(show_figures, table, configuration_score(planned, table))
    assert "diff" not in text
    assert "Why they may differ" not in text
    assert "full, CE, Avg and 1 more: a mean of others" in " ".join(text.split())
    assert "condition" not in printed(show_work, [], planned)


def test_a_study_is_named_by_the_task_that_it_trains_on(printed: Printed, laptop: Wishes) -> None:
    table = published_tables()["gunel/table-7"]
    planned = plan_cells(table, chosen_cells(table, ["CE,Yelp-2"]), laptop)
    works = [(one, Work("s", 6, 6)) for one in studies_of(planned)]
    text = lines(printed(show_work, works, planned))
    assert text[1:3] == ["CE sst2 6 6 unknown", "CE yelp2 6 6 unknown"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "unknown"), (0.0, "0 min"), (20.0, "under 1 min"), (600.0, "10 min"), (9e4, "25.0 h")],
    ids=str,
)
def test_work_tells_seed_runs_and_time(
    demo: Table, laptop: Wishes, printed: Printed, seconds: float | None, told: str
) -> None:
    planned = plan_cells(demo, demo.cells, laptop)
    one, *others = studies_of(planned)
    wrong = [(other, Work(reason="no [file]")) for other in others]
    time = Estimate(seconds, 2, MEASURED)
    text = printed(show_work, [(one, Work("s", 6, 4, time)), *wrong], planned)
    assert f"CE demo 6 4 {told}" in lines(text)
    assert f"1 studies, 6 seed runs, 4 of them to train; time: {told}" in " ".join(text.split())
    assert "- N=20, CE + SCL, Demo: no [file]" in lines(text)
