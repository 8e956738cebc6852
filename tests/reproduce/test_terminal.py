"""What is printed fits 80 columns and says how each figure came about."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from sclsearch.reports.report import ConfigurationLine, Report, SeedLine
from sclsearch.reproduce.again import Confirmation
from sclsearch.reproduce.base import Table
from sclsearch.reproduce.chosen import chosen_cells
from sclsearch.reproduce.figures import Figure, Work
from sclsearch.reproduce.plan import PlannedCell, Wishes, plan_cells, studies_of
from sclsearch.reproduce.tables import published_tables
from sclsearch.reproduce.terminal import show_confirmation, show_figures, show_spread, show_work
from sclsearch.search.estimate import MEASURED, STORED, Estimate
from sclsearch.search.options import How
from sclsearch.selection.variance import Observation, components

Printed = Callable[..., str]
NOTES = ("model minilm, not bert-base", "scaled: at most 150 updates a stage")


@pytest.fixture
def printed() -> Printed:
    """Returns what prints something on a terminal of 80 columns and returns the text."""

    def printed(show: Callable[..., None], *things: object) -> str:
        console = Console(file=StringIO(), width=80)
        show(console, *things)
        assert isinstance(console.file, StringIO)
        return console.file.getvalue()

    return printed


@pytest.fixture
def laptop(how: How) -> Wishes:
    return Wishes(how=how, scale="laptop")


def lines(text: str) -> list[str]:
    """Returns the lines with single blanks."""
    return [" ".join(line.split()) for line in text.splitlines()]


def figures_of(planned: Sequence[PlannedCell], table: Table) -> list[Figure]:
    """Returns a figure for each cell that has a study, 5 points below the published one."""
    figures = []
    for number, one in enumerate(planned):
        if one.what is None:
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
    text = printed(show_figures, table, figures_of(planned, table))
    work = printed(show_work, works, planned)
    assert all(len(line) <= 80 for line in (*text.splitlines(), *work.splitlines()))
    made = [one.cell for one in planned if one.what]
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
    text = lines(printed(show_figures, demo, figures_of(planned, demo)))
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
    whole = printed(show_figures, demo, figures_of(planned, demo))
    text = lines(whole)
    assert "Rows against CE, paired by replicate" in text
    assert any(
        line.startswith("Demo CE + SCL +10.0") and line.endswith("0.500 0.500") for line in text
    )
    assert "2 pairs cannot go below p = 0.5; with the usual spread" in " ".join(whole.split())
    (alone,) = (
        figure for figure in figures_of(planned, demo) if figure.cell.column.name == "Minor"
    )
    assert "Rows against" not in printed(show_figures, demo, [alone])


def test_scale_errata_and_reasons_are_told_once(
    demo: Table, laptop: Wishes, printed: Printed
) -> None:
    planned = plan_cells(demo, demo.cells, laptop)
    text = lines(printed(show_figures, demo, figures_of(planned, demo)))
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
    text = printed(show_figures, table, figures_of(planned, table))
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


@pytest.fixture
def confirmation() -> Confirmation:
    """Returns a winner chosen by its best two of three seeds and confirmed on three, one failed."""

    def reported(study: str, rule: str, tests: Sequence[float | None], mean: float) -> Report:
        seeds = tuple(
            SeedLine(r, f"{study}{r}", test, test, None if test is not None else "raised: a test")
            for r, test in enumerate(tests)
        )
        line = ConfigurationLine(4, "sampled", {}, {}, seeds, 0.5, (0, 1), mean, 0.01)
        return Report(
            study=study,
            method="scl",
            task="demo",
            model="minilm",
            protocol="plain",
            size=None,
            metric="accuracy",
            rule=rule,
            seeds=3,
            configurations=(line,),
            notes=("scaled: less",),
            weights={},
        )

    return Confirmation(
        reported("mine", "top-2", (0.8, 0.7, 0.6), 0.75),
        reported("mine-fresh", "mean", (0.7, None, 0.6), 0.65),
    )


def test_a_confirmation_tells_three_figures_their_seeds_and_the_difference(
    confirmation: Confirmation, printed: Printed
) -> None:
    text = lines(printed(show_confirmation, confirmation))
    assert text == [
        "Winner #4 of mine, test accuracy",
        "as chosen 0.7500 ± 0.0100, rule top-2",
        "all its seeds 0.7000 ± 0.1000, mean of 3 seeds",
        "fresh seeds 0.6500 ± 0.0100, mean of 2 of 3 seeds",
        "fresh - chosen -0.1000",
        "scaled: less",
    ]


def test_a_confirmation_of_which_all_seeds_failed_has_no_figure(
    confirmation: Confirmation, printed: Printed
) -> None:
    (line,) = confirmation.fresh.configurations
    failed = tuple(replace(seed, test=None, failure="raised: a test") for seed in line.seeds)
    line = replace(line, test_mean=None, test_std=None, seeds=failed)
    found = replace(confirmation, fresh=replace(confirmation.fresh, configurations=(line,)))
    text = lines(printed(show_confirmation, found))
    assert "fresh seeds none, mean of 0 of 3 seeds" in text
    assert not any("fresh - chosen" in line for line in text)


def test_a_spread_tells_shares_intervals_and_what_seeds_detect(printed: Printed) -> None:
    cells = [(i, o) for i in range(3) for o in range(3)]
    scores = [0.7 + 0.02 * o + 0.001 * ((i * o) % 2) for i, o in cells]
    observations = [
        Observation(0, i, o, score) for (i, o), score in zip(cells, scores, strict=True)
    ]
    found = components(observations)
    whole = printed(show_spread, "mine", found)
    text = lines(whole)
    assert text[0] == f"mine, its winner: 9 seed runs, mean test figure {found.mean:.4f}"
    low, high = (end**0.5 for end in found.components["order"].interval)
    share = f"{100 * found.share('order'):.0f} %"
    deviation = found.components["order"].variance ** 0.5
    assert f"order {share} {deviation:.4f} {low:.4f} … {high:.4f}" in text
    assert any(line.startswith("together ") for line in text)
    assert all(f"- {' '.join(note.split())}" in " ".join(text) for note in found.notes)
    assert "10 seeds can detect" in whole
    assert all(len(line) <= 80 for line in whole.splitlines())
