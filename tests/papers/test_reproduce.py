"""Tests of reproduced scores, of their settings and cost and of the comparison of rows."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

from sclsearch.api import chosen
from sclsearch.cli import app
from sclsearch.encoders.models import CARD, model_digest, model_folder
from sclsearch.papers.reproduce import (
    CellScore,
    PlannedCell,
    compare_rows,
    cost_of,
    distinct_studies,
    plan_cells,
    reproduce_cell,
)
from sclsearch.papers.tables import Table, load_tables, published_tables, select_cells
from sclsearch.papers.terminal import drawing_commands
from sclsearch.reports.report import finished_winner, report
from sclsearch.selection.significance import compare, holm
from sclsearch.study.spec import RunOptions, StudySpec
from tests.papers.conftest import QUIET
from tests.studies import finish

Cells = Callable[..., list[PlannedCell]]

OUT_OF_TIME = "the time budget is used up; the same command resumes"
DEMO = """
paper: Someone et al. 2020
number: 3
title: The demo
source: section 2
value: mean of the top 3
unit: percent
rule: top-3
protocol: gunel-fewshot
model: bert-base
settings: {batch_size: 8, epochs: 2, max_length: 16, learning_rate: 1.0e-3}
notes: ["Table 3 says 51, the text 15"]
rows:
  CE: {method: ce, note: "τ is assumed"}
  CE + SCL: {method: scl, settings: {tau: 0.3, lam: 0.9}}
  Theirs: {}
columns:
  Demo: {task: demo, metric: accuracy}
  Minor: {task: demo, metric: f1, of_class: minority}
  Mean: {metric: accuracy, average_of: [Demo, Minor]}
blocks:
  N=20: {train_size: 20}
  Both: {average_of: [N=20]}
cells:
  N=20:
    CE: {Demo: [50.0, 1.0], Minor: 40.0, Mean: 45.0}
    CE + SCL: {Demo: 60.0, Minor: null, Mean: null}
    Theirs: {Demo: 61.0, Minor: null, Mean: null}
  Both:
    CE: {Demo: 55.0, Minor: null, Mean: null}
"""


def write_table(folder: Path, text: str) -> Table:
    """Return the table `some/table-1` that a YAML text describes."""
    path = folder / "published" / "some" / "table-1.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return load_tables(folder / "published")["some/table-1"]


@pytest.fixture
def demo(tmp_path: Path) -> Table:
    """Return a table on the embedded task; only some of its cells are trainable."""
    return write_table(tmp_path, DEMO)


@pytest.fixture
def cells(demo: Table, options: RunOptions, small: Path) -> Cells:
    """Return a function that plans the selected cells of the demo's table."""

    def cells(*selectors: str, scale: Literal["laptop"] | None = None) -> list[PlannedCell]:
        selected = select_cells(demo, selectors)
        return plan_cells(demo, selected, options, model=str(small), scale=scale)

    return cells


@pytest.fixture
def ce(cells: Cells) -> PlannedCell:
    """Return the cell of cross-entropy's accuracy."""
    (one,) = cells("CE,N=20,Demo")
    return one


def test_settings_combine_table_task_condition_and_row(tmp_path: Path) -> None:
    demo = DEMO.replace("{tau: 0.3, lam: 0.9}", "{tau: 0.3, epochs: 9}")
    demo = demo.replace("metric: accuracy}", "metric: accuracy, settings: {epochs: 4, tau: 1}}", 1)
    table = write_table(tmp_path, demo.replace("{train_size: 20}", "{settings: {epochs: 5}}"))
    assert [cell.settings["epochs"] for cell in table.cells] == [5, 5, 5, 9, 5, 4]
    assert [cell.settings.get("tau") for cell in table.cells] == [1, None, None, 0.3, 1, 1]


def test_a_score_is_the_mean_of_the_seeds_that_the_tables_rule_counts(ce: PlannedCell) -> None:
    name = finish(ce.spec, replace(ce.options, rule="mean"))
    score = reproduce_cell(ce, QUIET)
    assert (score.study, score.rule, len(score.tests), score.reason) == (name, "top-3", 10, "")
    assert "CE: τ is assumed" in score.notes
    assert score.tests == tuple((60 + r) / 100 for r in range(10))
    assert (score.mean, score.std, score.plain) == pytest.approx((0.68, 0.01, 0.645))


def test_two_metrics_come_from_the_same_seed_runs(cells: Cells) -> None:
    accuracy, minor = cells("CE,N=20,Demo,Minor")
    finish(accuracy.spec, accuracy.options)
    scores = [reproduce_cell(one, QUIET) for one in (accuracy, minor)]
    assert scores[0].study == scores[1].study
    # Class 0 is the rarer of two that are equally frequent.
    f1 = [2 * (20 + r) / (50 + 30 + r) for r in range(10)]
    assert scores[1].tests == pytest.approx(f1)
    assert scores[1].mean == pytest.approx(sum(f1[7:]) / 3)


def test_the_cost_is_the_time_of_the_missing_seed_runs(
    ce: PlannedCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.ray_backend.start.cores", lambda: 4)
    two = replace(ce, options=replace(ce.options, concurrency=2))

    def planned(one: PlannedCell) -> list[float | None]:
        cost = cost_of(one)
        return [cost["seed_runs"], cost["missing"], cost["at_once"], cost["seconds"]]

    assert planned(ce) == [10, 10, 1, None]
    finish(ce.spec, replace(ce.options, seeds=3), seconds=60.0)
    assert planned(ce) == [10, 7, 1, 420.0]
    assert planned(two) == [10, 7, 2, 240.0]


def test_rows_are_compared_with_the_first_by_replicate(demo: Table) -> None:
    def scored(selector: str, *tests: float | None) -> CellScore:
        (cell,) = select_cells(demo, [selector])
        mean = max(filter(None, tests), default=None)
        return CellScore(cell, mean=mean, tests=tests, study=selector)

    base = scored("CE,N=20,Demo", 0.5, 0.6, None, 0.7)
    ours = scored("CE + SCL,N=20,Demo", 0.6, 0.8, 0.9, 0.7)
    theirs = scored("Theirs,N=20,Demo", 0.5, 0.5, 0.5, 0.5)
    elsewhere = scored("CE,N=20,Minor", 0.1, 0.2), scored("CE,Both,Demo", 0.1, 0.2)
    found = compare_rows([*elsewhere, base, ours, theirs])
    assert [(one["ours"], one["base"]) for one in found] == [
        (ours.cell, base.cell),
        (theirs.cell, base.cell),
    ]
    assert found[0]["comparison"] == compare(ours.tests, base.tests)
    assert [one["adjusted"] for one in found] == holm([one["comparison"].p for one in found])
    # Conditions that share both studies are compared once.
    twins = [replace(one, cell=replace(one.cell, block="Both")) for one in (base, ours)]
    assert compare_rows([base, ours, *twins]) == compare_rows([base, ours])
    # Rows without a common replicate are not compared.
    none, late = scored("CE,N=20,Demo", 0.5, None), scored("CE + SCL,N=20,Demo", None, 0.5)
    failed, alone = scored("CE,N=20,Demo", None), scored("CE + SCL,N=20,Demo", 0.5)
    assert compare_rows([none, late]) == compare_rows([failed, alone]) == []


def test_the_encoder_of_the_best_seed_is_exported_once_with_a_note(
    tmp_path: Path, options: RunOptions, small: Path
) -> None:
    def missing() -> list[int]:
        return [cost_of(study)["missing"] for study in distinct_studies([one])]

    # A cell at laptop scale that starts from an encoder fine-tuned on the same task.
    text = DEMO.replace("{train_size: 20}", "{train_size: 20, first_task: demo}")
    table = write_table(tmp_path, text)
    one = plan_cells(table, table.cells, options, scale="laptop", model=str(small))[0]
    assert one.spec is not None
    assert one.first is not None
    finish(one.spec, options)  # seed runs on the pretrained encoder are useless here
    assert missing() == [6, 6]
    first = finish(one.first.spec, one.first.options)
    best = finished_winner(report(options.storage, first)).seeds[2].key
    assert missing() == [0, 6]
    assert not Path(options.storage, "encoders").exists()
    assert reproduce_cell(one, QUIET, 0.0).reason == OUT_OF_TIME
    (folder,) = Path(options.storage, "encoders").iterdir()
    assert (folder.name, missing()) == (f"demo-{best[:12]}", [0, 6])
    name = finish(replace(one.spec, model=str(folder)), one.options)
    assert (missing(), cost_of(one)["study"]) == ([0, 0], name)
    written = (folder / CARD).stat().st_mtime_ns
    score = reproduce_cell(one, QUIET, 0.0)
    assert (folder / CARD).stat().st_mtime_ns == written
    assert (score.study, len(score.tests)) == (name, 3)
    assert score.mean == pytest.approx(0.61)
    assert "encoder first fine-tuned on demo by ce: seed 2, the best of 3 by" in str(score.notes)


def test_the_name_of_a_study_as_model_is_its_fine_tuned_encoder(
    options: RunOptions, small: Path
) -> None:
    spec = StudySpec(method="ce", task="demo", model=str(small), protocol="gunel-full")
    study = finish(spec, replace(options, configs=1, seeds=2))
    given = {"model": study, "train_size": 20, "storage": options.storage}
    models = [chosen("demo", "scl", given)[0].model for _ in range(2)]
    (folder,) = Path(options.storage, "encoders").iterdir()
    assert models == [str(folder)] * 2
    assert model_digest(model_folder(str(folder))) != model_digest(small)
    for model in ("minilm", str(small), "owner/name", "unknown"):
        assert chosen("demo", "scl", {**given, "model": model})[0].model == model


def test_the_command_of_a_figure_draws_the_trend_of_its_studies(
    options: RunOptions, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table, scores = published_tables()["lacon/figure-2"], []
    cells = select_cells(table, ["QQP,10,20"])
    for one in plan_cells(table, cells, options, scale="laptop", model=str(small)):
        assert one.spec is not None
        demo = replace(one, spec=replace(one.spec, task="demo"))
        finish(demo.spec, demo.options)
        scores.append(reproduce_cell(demo, QUIET))
    (line,) = drawing_commands(table, scores, options.storage)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, shlex.split(line)[3:]).exit_code == 0
    text = Path("lacon-figure-2-qqp", "index.html").read_text(encoding="utf-8")
    assert "How does the test accuracy on demo depend on the number of training" in text
    assert "Details of lacon at 20" in text
    assert Path("lacon-figure-2-qqp", "figures", "trend.svg").exists()
