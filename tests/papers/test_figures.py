"""Figures of a table are what the stored seed runs say under the table's rule."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.papers.base import Table
from sclsearch.papers.chosen import chosen_cells
from sclsearch.papers.figures import Figure, make, work_of
from sclsearch.papers.pairs import pairs
from sclsearch.papers.plan import PlannedCell, Wishes, plan_cells
from sclsearch.search.estimate import MEASURED, STORED, Estimate, finished
from sclsearch.selection.significance import compare, holm
from sclsearch.store.studies import study_names
from sclsearch.study.spec import RunOptions

Fill = Callable[..., str]
Cells = Callable[..., list[PlannedCell]]

QUIET = Console(quiet=True)


@pytest.fixture
def cells(demo: Table, options: RunOptions, small: Path) -> Cells:
    """Returns what plans the chosen cells of the demo's table."""

    def cells(*wanted: str, scale: str | None = None) -> list[PlannedCell]:
        wishes = Wishes(options=options, model=str(small), scale=scale)
        return plan_cells(demo, chosen_cells(demo, wanted), wishes)

    return cells


@pytest.fixture
def figured(demo: Table) -> Callable[..., Figure]:
    """Returns what gives a cell the test figures of its replicates."""

    def figured(wanted: str, *tests: float | None) -> Figure:
        (cell,) = chosen_cells(demo, [wanted])
        there = [test for test in tests if test is not None]
        mean = sum(there) / len(there) if there else None
        return Figure(cell, mean=mean, plain=mean, tests=tests, seeds=len(tests))

    return figured


def test_a_figure_is_the_mean_of_the_seeds_that_the_rule_counts(cells: Cells, fill: Fill) -> None:
    (one,) = cells("CE,N=20,Demo")
    assert one.spec is not None
    name = fill(one.spec, one.options)
    figure = make(one, QUIET)
    assert (figure.study, figure.rule, figure.seeds, figure.reason) == (name, "top-3", 10, "")
    assert figure.tests == tuple((60 + r) / 100 for r in range(10))
    assert figure.mean == pytest.approx(0.68)
    assert figure.std == pytest.approx(0.01)
    assert figure.plain == pytest.approx(0.645)


def test_the_rule_is_the_tables_whatever_the_study_was_begun_with(cells: Cells, fill: Fill) -> None:
    (one,) = cells("CE,N=20,Demo")
    assert one.spec is not None
    fill(one.spec, replace(one.options, rule="mean"))
    figure = make(one, QUIET)
    assert figure.rule == "top-3"
    assert figure.mean == pytest.approx(0.68)


def test_a_failed_seed_is_in_no_figure_and_is_not_hidden(cells: Cells, fill: Fill) -> None:
    (one,) = cells("CE,N=20,Demo")
    assert one.spec is not None
    fill(one.spec, one.options, lambda _, r: None if r == 9 else [[20 + r, 30 - r], [10, 40]])
    figure = make(one, QUIET)
    assert (figure.tests[9], figure.seeds) == (None, 10)
    assert figure.mean == pytest.approx(0.67)
    assert figure.plain == pytest.approx(0.64)


def test_a_study_whose_seeds_all_failed_has_no_figure(cells: Cells, fill: Fill) -> None:
    (one,) = cells("CE,N=20,Demo")
    assert one.spec is not None
    fill(one.spec, one.options, lambda *_: None)
    figure = make(one, QUIET)
    assert (figure.mean, figure.reason) == (None, "all its seed runs failed")


def test_two_metrics_come_from_the_same_seed_runs(cells: Cells, fill: Fill) -> None:
    accuracy, minor = cells("CE,N=20,Demo,Minor")
    assert accuracy.spec is not None
    fill(accuracy.spec, accuracy.options)
    figures = [make(one, QUIET) for one in (accuracy, minor)]
    assert figures[0].study == figures[1].study
    # Class 0 is the rarer of two that are equally frequent.
    f1 = [2 * (20 + r) / (50 + 30 + r) for r in range(10)]
    assert figures[1].tests == pytest.approx(f1)
    assert figures[1].mean == pytest.approx(sum(f1[7:]) / 3)


def test_a_cell_without_a_study_keeps_its_reason(cells: Cells) -> None:
    (one,) = cells("Both,CE,Demo")
    figure = make(one, QUIET)
    assert (figure.mean, figure.reason) == (None, "a mean of others")


def test_what_a_user_can_mend_is_the_reason_and_not_the_end(cells: Cells, tmp_path: Path) -> None:
    (one,) = cells("CE,N=20,Demo")
    assert one.spec is not None
    wrong = replace(one, spec=replace(one.spec, train_size=5000))
    figure = make(wrong, QUIET)
    assert figure.mean is None
    assert figure.reason.startswith("--train-size 5000: it must lie between")
    assert work_of(wrong, list).reason == figure.reason
    assert not study_names(tmp_path / "storage")


def test_notes_say_model_assumptions_scale_and_choice(
    cells: Cells, fill: Fill, small: Path
) -> None:
    figures = []
    for one in cells("N=20,CE,CE + SCL,Demo", scale="laptop"):
        assert one.spec is not None
        fill(one.spec, one.options)
        figures.append(make(one, QUIET))
    assert [figure.seeds for figure in figures] == [3, 3]
    searched, assumed = (figure.notes for figure in figures)
    assert f"model {small}, not bert-base" in searched
    assert any(note.startswith("scaled: at most 150 updates") for note in searched)
    assert "ours is the best of 2 configurations by validation" in searched
    assert "CE + SCL: τ is assumed" in assumed
    assert not any("configurations" in note for note in assumed)


def test_a_used_time_budget_spends_nothing_but_shows_what_is_stored(
    cells: Cells, fill: Fill, tmp_path: Path
) -> None:
    stored, missing = cells("N=20,CE,CE + SCL,Demo")
    assert stored.spec is not None
    fill(stored.spec, stored.options)
    over = time.monotonic() - 1
    figures = [make(one, QUIET, over) for one in (stored, missing)]
    assert figures[0].mean == pytest.approx(0.68)
    assert figures[1].reason == "the time budget is used; the same command goes on"
    assert study_names(tmp_path / "storage") == [figures[0].study]


def test_work_is_what_the_store_lacks_at_the_pace_of_what_it_has(
    cells: Cells, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.ray_backend.startup.cores", lambda: 4)
    one, other = cells("N=20,CE,CE + SCL,Demo")
    assert one.spec is not None
    before = work_of(one, list)
    assert (before.seed_runs, before.missing) == (10, 10)
    assert before.time is not None
    assert before.time.basis == MEASURED
    fill(one.spec, replace(one.options, seeds=3))
    stored = finished(one.options.storage)
    begun = work_of(one, lambda: stored)
    assert (begun.missing, begun.time) == (7, Estimate(7 * 60.0, 1, STORED))
    two = replace(one, options=replace(one.options, concurrency=2))
    assert work_of(two, lambda: stored).time == Estimate(4 * 60.0, 2, STORED)
    fill(one.spec, one.options)
    assert work_of(one, partial(finished, one.options.storage)).time == Estimate(0.0, 1, "")
    of_another = work_of(other, lambda: stored).time
    assert of_another is not None
    assert of_another.basis == MEASURED


def test_rows_are_paired_with_the_first_by_replicate(figured: Callable[..., Figure]) -> None:
    base = figured("CE,N=20,Demo", 0.5, 0.6, None, 0.7)
    ours = figured("CE + SCL,N=20,Demo", 0.6, 0.8, 0.9, 0.7)
    theirs = figured("Theirs,N=20,Demo", 0.5, 0.5, 0.5, 0.5)
    found = pairs([base, ours, theirs])
    assert [(pair.ours.row.name, pair.base.row.name) for pair in found] == [
        ("CE + SCL", "CE"),
        ("Theirs", "CE"),
    ]
    assert found[0].comparison == compare(ours.tests, base.tests)
    assert (found[0].comparison.n, found[0].comparison.n_missing) == (3, 1)
    assert found[0].comparison.difference == pytest.approx(0.1)
    assert [pair.adjusted for pair in found] == holm([pair.comparison.p for pair in found])


def test_pairs_keep_the_order_of_the_table_and_never_mix_columns(
    figured: Callable[..., Figure],
) -> None:
    minor = figured("CE,N=20,Minor", 0.1, 0.2)
    both = figured("CE,Both,Demo", 0.1, 0.2)
    twenty = figured("CE,N=20,Demo", 0.1, 0.2), figured("CE + SCL,N=20,Demo", 0.3, 0.2)
    assert [p.ours.block.name for p in pairs([both, minor, *twenty])] == ["N=20"]


def test_rows_that_finished_no_replicate_in_common_are_not_compared(
    figured: Callable[..., Figure],
) -> None:
    assert (
        pairs([figured("CE,N=20,Demo", 0.5, None), figured("CE + SCL,N=20,Demo", None, 0.5)]) == []
    )
    assert pairs([figured("CE,N=20,Demo", None), figured("CE + SCL,N=20,Demo", 0.5)]) == []
    assert pairs([]) == []


def test_a_figure_can_be_told_as_plain_data(cells: Cells, fill: Fill) -> None:
    (one,) = cells("CE,N=20,Demo")
    assert one.spec is not None
    fill(one.spec, one.options)
    told = asdict(make(one, QUIET))
    assert (told["cell"]["row"]["name"], told["cell"]["value"]) == ("CE", 50.0)
    assert math.isclose(told["mean"], 0.68)
