"""Tests of reproduced scores, of their cost and of the comparison of rows."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from sclsearch.encoders.heads import Head
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.models import CARD
from sclsearch.methods.base import Model
from sclsearch.papers.reproduce import (
    CellScore,
    PlannedCell,
    compare_rows,
    cost_of,
    distinct_studies,
    plan_cells,
    reproduce_cell,
)
from sclsearch.papers.tables import Table, select_cells
from sclsearch.reports.notes import Note, doubt
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.search.plan import MEASURED, STORED, Estimate, finished
from sclsearch.search.run import run
from sclsearch.selection.significance import compare, holm
from sclsearch.store.studies import StudyStore, study_names
from sclsearch.study.spec import RunOptions
from tests.finished import finish
from tests.in_process import in_process
from tests.papers.conftest import DEMO, QUIET, stored, write_table

Cells = Callable[..., list[PlannedCell]]

OUT_OF_TIME = "the time budget is used up; the same command resumes"


@pytest.fixture
def cells(demo: Table, options: RunOptions, small: Path) -> Cells:
    """Return a function that plans the selected cells of the demo's table."""

    def cells(*selectors: str, scale: str | None = None) -> list[PlannedCell]:
        selected = select_cells(demo, selectors)
        return plan_cells(demo, selected, options, model=str(small), scale=scale)

    return cells


@pytest.fixture
def ce(cells: Cells) -> PlannedCell:
    """Return the cell of cross-entropy's accuracy."""
    (one,) = cells("CE,N=20,Demo")
    return one


def test_a_score_is_the_mean_of_the_seeds_that_the_tables_rule_counts(ce: PlannedCell) -> None:
    name = finish(ce.spec, replace(ce.options, rule="mean"))
    score = reproduce_cell(ce, QUIET)
    assert (score.study, score.rule, score.seeds, score.reason) == (name, "top-3", 10, "")
    assert score.tests == tuple((60 + r) / 100 for r in range(10))
    assert (score.mean, score.std, score.plain) == pytest.approx((0.68, 0.01, 0.645))


def test_a_failed_seed_is_visible_but_not_in_the_scores(ce: PlannedCell) -> None:
    finish(ce.spec, ce.options, lambda _, r: None if r == 9 else [[20 + r, 30 - r], [10, 40]])
    score = reproduce_cell(ce, QUIET)
    assert (score.tests[9], score.seeds) == (None, 10)
    assert (score.mean, score.plain) == pytest.approx((0.67, 0.64))


def test_a_study_whose_seeds_all_failed_has_no_score(ce: PlannedCell) -> None:
    finish(ce.spec, ce.options, lambda *_: None)
    score = reproduce_cell(ce, QUIET)
    assert (score.mean, score.reason) == (None, "all its seed runs failed")


def test_two_metrics_come_from_the_same_seed_runs(cells: Cells) -> None:
    accuracy, minor = cells("CE,N=20,Demo,Minor")
    finish(accuracy.spec, accuracy.options)
    scores = [reproduce_cell(one, QUIET) for one in (accuracy, minor)]
    assert scores[0].study == scores[1].study
    # Class 0 is the rarer of two that are equally frequent.
    f1 = [2 * (20 + r) / (50 + 30 + r) for r in range(10)]
    assert scores[1].tests == pytest.approx(f1)
    assert scores[1].mean == pytest.approx(sum(f1[7:]) / 3)


def test_a_user_error_is_the_reason_for_a_missing_score(
    cells: Cells, ce: PlannedCell, options: RunOptions
) -> None:
    assert ce.spec is not None
    invalid = replace(ce, spec=replace(ce.spec, train_size=5000))
    score = reproduce_cell(invalid, QUIET)
    assert score.mean is None
    assert score.reason.startswith("--train-size")
    assert cost_of(invalid, list).reason == score.reason
    assert not study_names(options.storage)
    (mean,) = cells("Both,CE,Demo")
    assert reproduce_cell(mean, QUIET).reason == "a mean of other cells"


def test_notes_name_model_assumptions_scale_and_selection(cells: Cells, small: Path) -> None:
    scores = []
    for one in cells("N=20,CE,CE + SCL,Demo", scale="laptop"):
        finish(one.spec, one.options)
        scores.append(reproduce_cell(one, QUIET))
    assert [score.seeds for score in scores] == [3, 3]
    searched, assumed = (score.notes for score in scores)
    assert f"model {small}, not bert-base" in searched
    assert any(note.startswith("scaled: at most 150 updates") for note in searched)
    for notes in (searched, assumed):
        assert "ours is the best of 2 configurations by validation" in notes
    assert "CE + SCL: τ is assumed" in assumed


def test_a_warning_names_its_cell(ce: PlannedCell, monkeypatch: pytest.MonkeyPatch) -> None:
    def warned(*given: Any) -> Report:
        return replace(report(*given), notes=(doubt("few rows"), Note("scaled")))

    monkeypatch.setattr("sclsearch.search.scheduler.report", warned)
    finish(ce.spec, ce.options)
    notes = reproduce_cell(ce, QUIET).notes
    assert {f"{ce.cell.name}: warning: few rows", "scaled"} <= {*notes}


def test_a_used_time_budget_trains_nothing_but_shows_stored_scores(
    cells: Cells, options: RunOptions
) -> None:
    finished_cell, missing_cell = cells("N=20,CE,CE + SCL,Demo")
    finish(finished_cell.spec, finished_cell.options)
    past = time.monotonic() - 1
    scores = [reproduce_cell(one, QUIET, past) for one in (finished_cell, missing_cell)]
    assert scores[0].mean == pytest.approx(0.68)
    assert scores[1].reason == OUT_OF_TIME
    assert study_names(options.storage) == [scores[0].study]


def test_the_cost_is_the_missing_seed_runs_at_the_pace_of_stored_ones(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.ray_backend.start.cores", lambda: 4)
    one, other = cells("N=20,CE,CE + SCL,Demo")
    before = cost_of(one, list)
    assert (before.seed_runs, before.missing) == (10, 10)
    assert before.time is not None
    assert before.time.basis == MEASURED
    finish(one.spec, replace(one.options, seeds=3))
    runs = finished(one.options.storage)
    begun = cost_of(one, lambda: runs)
    assert (begun.missing, begun.time) == (7, Estimate(7 * 60.0, 1, STORED))
    two = replace(one, options=replace(one.options, concurrency=2))
    assert cost_of(two, lambda: runs).time == Estimate(4 * 60.0, 2, STORED)
    finish(one.spec, one.options)
    assert cost_of(one, partial(finished, one.options.storage)).time == Estimate(0.0, 1, "")
    of_another = cost_of(other, lambda: runs).time
    assert of_another is not None
    assert of_another.basis == MEASURED


@pytest.fixture
def scored(demo: Table) -> Callable[..., CellScore]:
    """Return a function that gives a cell the test scores of its replicates."""

    def scored(selector: str, *tests: float | None) -> CellScore:
        (cell,) = select_cells(demo, [selector])
        succeeded = [test for test in tests if test is not None]
        mean = sum(succeeded) / len(succeeded) if succeeded else None
        return CellScore(cell, mean=mean, plain=mean, tests=tests, seeds=len(tests))

    return scored


def test_rows_are_compared_with_the_first_by_replicate(scored: Callable[..., CellScore]) -> None:
    base = scored("CE,N=20,Demo", 0.5, 0.6, None, 0.7)
    ours = scored("CE + SCL,N=20,Demo", 0.6, 0.8, 0.9, 0.7)
    theirs = scored("Theirs,N=20,Demo", 0.5, 0.5, 0.5, 0.5)
    elsewhere = scored("CE,N=20,Minor", 0.1, 0.2), scored("CE,Both,Demo", 0.1, 0.2)
    found = compare_rows([*elsewhere, base, ours, theirs])
    assert [(one.ours.name, one.base.name) for one in found] == [
        ("N=20, CE + SCL, Demo", "N=20, CE, Demo"),
        ("N=20, Theirs, Demo", "N=20, CE, Demo"),
    ]
    assert found[0].comparison == compare(ours.tests, base.tests)
    assert (found[0].comparison.n, found[0].comparison.n_missing) == (3, 1)
    assert [one.adjusted for one in found] == holm([one.comparison.p for one in found])


@pytest.mark.parametrize(
    ("base", "ours"), [((0.5, None), (None, 0.5)), ((None,), (0.5,))], ids=["disjoint", "no base"]
)
def test_rows_without_a_common_replicate_are_not_compared(
    scored: Callable[..., CellScore],
    base: tuple[float | None, ...],
    ours: tuple[float | None, ...],
) -> None:
    scores = scored("CE,N=20,Demo", *base), scored("CE + SCL,N=20,Demo", *ours)
    assert compare_rows(scores) == []


@pytest.fixture
def transfer(tmp_path: Path) -> Table:
    """Return a table whose first cell starts from an encoder fine-tuned on the same task."""
    return write_table(
        tmp_path, DEMO.replace("{train_size: 20}", "{train_size: 20, first_task: demo}")
    )


@pytest.fixture
def one(transfer: Table, options: RunOptions, small: Path) -> PlannedCell:
    """Return the cell of a transfer at laptop scale, on a tiny encoder."""
    return plan_cells(transfer, transfer.cells, options, scale="laptop", model=str(small))[0]


def fill_first(one: PlannedCell) -> str:
    """Finish the study that fine-tunes the encoder of a cell; return its name."""
    assert one.first is not None
    return finish(one.first.spec, one.first.options)


@pytest.fixture
def weights(one: PlannedCell, small: Path) -> Path:
    """Return the weights of the finished first fine-tuning; replicate 2 is the best."""
    name = fill_first(one)
    winner = finished_winner(report(one.options.storage, name))
    weights = Path(str(StudyStore(one.options.storage, name).weights(winner.seeds[2].key)))
    weights.parent.mkdir(exist_ok=True)
    encoder = load_encoder(small, "small")
    modules = torch.nn.ModuleDict({"head": Head(encoder.width, 2, hidden=True)})
    save_file(Model(encoder, modules).state_dict(), weights)
    return weights


def exported(options: RunOptions) -> Path:
    (folder,) = Path(options.storage, "encoders").iterdir()
    return folder


def missing(one: PlannedCell) -> list[int]:
    return [cost_of(study, list).missing for study in distinct_studies([one])]


def fill_on(folder: Path, one: PlannedCell) -> str:
    """Finish the study of a cell on an exported encoder; return its name."""
    assert one.spec is not None
    return finish(replace(one.spec, model=str(folder)), one.options)


def test_all_seed_runs_of_a_cell_are_missing_while_its_encoder_is_missing(one: PlannedCell) -> None:
    assert missing(one) == [6, 6]
    # Stored seed runs on the pretrained encoder are useless here.
    finish(one.spec, one.options)
    assert missing(one) == [6, 6]
    cost = cost_of(one, partial(finished, one.options.storage))
    assert cost.time is not None
    assert (cost.study, cost.time.basis) == ("", STORED)
    assert cost.time.seconds == pytest.approx(6 * 60.0, rel=0.01)
    name = fill_first(one)
    assert missing(one) == [0, 6]
    shutil.rmtree(Path(one.options.storage, "studies", name))
    assert missing(one) == [0, 6]
    assert not Path(one.options.storage, "encoders").exists()


def test_the_encoder_of_the_best_seed_is_exported_once_with_a_note(
    one: PlannedCell, weights: Path, small: Path
) -> None:
    assert reproduce_cell(one, QUIET, 0.0).reason == OUT_OF_TIME
    folder = exported(one.options)
    assert folder.name == f"demo-{weights.stem[:12]}"
    assert missing(one) == [0, 6]
    name = fill_on(folder, one)
    assert (missing(one), cost_of(one, list).study) == ([0, 0], name)
    written = (folder / CARD).stat().st_mtime_ns
    score = reproduce_cell(one, QUIET, 0.0)
    assert (folder / CARD).stat().st_mtime_ns == written
    assert (score.study, score.seeds) == (name, 3)
    assert score.mean == pytest.approx(0.61)
    note = (
        "encoder first fine-tuned on demo by ce: seed 2, the best of 3 by validation, accuracy "
        "0.6200"
    )
    assert {note, f"model ./{small.name}, not bert-base"} <= {*score.notes}
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**card, "base": "bert-base"}))
    fill_on(folder, one)
    notes = reproduce_cell(one, QUIET, 0.0).notes
    assert not any(note.startswith("model ") for note in notes)


def test_an_error_in_the_first_study_is_the_reason_for_a_missing_score(one: PlannedCell) -> None:
    assert one.first is not None
    assert one.first.spec is not None
    invalid = replace(one, first=replace(one.first, spec=replace(one.first.spec, task="dmeo")))
    reason = reproduce_cell(invalid, QUIET).reason
    assert reason.startswith("Unknown task 'dmeo'. Did you mean 'demo'?")
    assert cost_of(invalid, list).reason == reason


@pytest.mark.slow
def test_an_interrupted_transfer_resumes_and_trains_nothing_twice(
    transfer: Table, options: RunOptions, tiny_roberta: Path
) -> None:
    one = plan_cells(transfer, transfer.cells, options, scale="laptop", model=str(tiny_roberta))[0]
    assert one.first is not None
    assert one.first.spec is not None
    with in_process():
        run(one.first.spec, replace(one.first.options, configs=1), QUIET)
        begun = stored(options)
        assert (len(begun), missing(one)) == (3, [3, 6])
        score = reproduce_cell(one, QUIET)
    whole = stored(options)
    assert (score.seeds, score.reason, len(whole)) == (3, "", 12)
    assert {key: whole[key] for key in begun} == begun
    assert (missing(one), len(study_names(options.storage))) == ([0, 0], 2)
    models = {json.loads(text)["origin"]["model"] for text in whole.values()}
    assert models == {str(tiny_roberta), str(exported(options))}
    assert reproduce_cell(one, QUIET) == score
    assert stored(options) == whole
