"""Tests of studies whose task has no test rows: reports show validation scores alone."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.protocols.variants import laptop, with_folds
from sclsearch.tasks import as_task, load_task
from sclsearch.tracking.process import WriterProcess
from sclsearch.tracking.publish import track_study
from sclsearch.tracking.server import LEVEL, connect
from tests.made_up import WriteStudy
from tests.studies import in_process

ROWS = [(f"n{n}", f"it was {('good', 'bad')[n % 2]} {n}", n % 2) for n in range(60)]
FRAME = pd.DataFrame(ROWS, columns=["nr", "text", "label"])
NOISY = FRAME.assign(label=FRAME["label"] ^ (FRAME.index % 7 == 0))
NAMES = ("first", "second")


@pytest.fixture(scope="module")
def module_folder(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the storage of two studies without test rows."""
    folder = tmp_path_factory.mktemp("untested")
    options: dict[str, Any] = {
        "method": "ce",
        "fractions": (0.8, 0.2, 0.0),
        "id": "nr",
        "model": tiny_bert,
        "settings": {"epochs": 1, "max_length": 16},
        "seeds": 2,
        "storage": folder / "storage",
        "tracking": "none",
        "gpus_per_trial": 0,
        "progress": False,
    }
    (folder / "data.csv").write_text(FRAME.to_csv(index=False, sep=";"))
    with in_process():
        sclsearch.tune(task=FRAME, configs=2, study="first", **options)
        task = str(folder / "data.csv")
        sclsearch.tune(task=task, configs=1, test_scores="winner", study="second", **options)
        on_folds = {**options, "fractions": None, "seeds": 5, "settings": {"max_length": 16}}
        sclsearch.tune(task=NOISY, configs=2, study="folds", **on_folds)
    return folder


@pytest.fixture
def folder(module_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return that folder, which is the current one."""
    monkeypatch.chdir(module_folder)
    return module_folder


def test_folds_are_the_test_and_give_an_estimate_that_is_corrected_for_the_choice(
    folder: Path,
) -> None:
    found = sclsearch.select("folds", storage=folder / "storage")
    estimate, rows = found.estimate, found.predictions()
    assert estimate is not None
    assert estimate.rows == 60
    right = rows["label"] == rows["predicted"]
    pooled = right.groupby([rows["configuration"], rows["split"]]).mean().unstack()
    assert (pooled["test"] == pooled["validation"]).all()
    assert found.winner is not None
    assert estimate.low < estimate.score <= pooled["validation"][found.winner.number]
    shown = " ".join(invoke("show", "folds").split())
    low, high = f"{estimate.low:.4f}", f"{estimate.high:.4f}"
    expected = f"estimated accuracy on new texts {estimate.score:.4f} (95 %: {low} to {high})"
    assert expected in shown
    assert "corrected for the choice among the 2 with all seeds" in shown
    assert "sclsearch export folds" in shown


def test_the_estimate_of_a_winner_that_is_not_the_start_is_not_that_of_the_start(
    write_study: WriteStudy,
) -> None:
    start = [([[6, 6], [6, 6]],) * 2] * 5
    other = [([[n, 12 - n], [12 - n, n]],) * 2 for n in (6, 12, 6, 11, 8)]
    rows = {"train": "abcde", "test": "v", "validation": "v"}
    given: dict[str, Any] = {"rows": rows, "folds": 5, "rule": "careful", "labels": ("a", "b")}
    storage = write_study(start, other, with_rows=True, **given)
    found = sclsearch.select("made-up", storage=storage)
    assert found.winner is not None
    assert (found.winner.number, found.start_is_kept) == (1, False)
    assert found.estimate is not None
    assert found.estimate.score == pytest.approx(found.winner.score, abs=0.02)


def test_scores_on_folds_are_never_called_test_scores(folder: Path, tmp_path: Path) -> None:
    invoke("report", "folds", "--output", str(tmp_path / "page"))
    exported = invoke("export", "folds", str(tmp_path / "model"), "--force")
    pages = (tmp_path / "page" / "index.html", tmp_path / "model" / "README.md")
    for text in (invoke("show", "folds"), *(one.read_text() for one in pages)):
        words = " ".join(text.split())
        assert "fold" in words
        assert "test accuracy" not in words
    assert ", test " not in exported


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--storage", "storage"])
    assert result.exit_code == 0, result.output
    return result.output


def test_seed_runs_have_validation_scores_alone(folder: Path) -> None:
    found = sclsearch.select("first", storage="storage")
    assert not found.has_test
    assert NO_TEST_ROWS in found.notes
    for line in (*found.configurations, *found.baselines):
        assert (line.test_mean, line.untested, line.failed) == (None, 0, 0)
        assert line.score is not None
    assert set(found.predictions()["split"]) == {"validation"}


def test_commands_tables_exports_the_page_and_mlflow_have_no_test_scores(
    folder: Path, tmp_path: Path
) -> None:
    confirm = ["confirm", "second", "--seeds", "2", "--gpus-per-trial", "0", "--tracking", "none"]
    for command in (["show", "first"], ["compare", *NAMES], confirm):
        with in_process():
            printed = " ".join(invoke(*command).split())
        assert NO_TEST_ROWS in printed
        assert "--test-scores" not in printed
    assert json.loads(invoke("compare", *NAMES, "--json"))["pairs"] == []
    assert "None" not in invoke("show", *NAMES, "--rows", "winners", "--format", "csv")
    invoke("export", "first", str(tmp_path / "model"), "--force")
    assert NO_TEST_ROWS in (tmp_path / "model" / "README.md").read_text()
    record = json.loads((tmp_path / "model" / "sclsearch.json").read_text())
    assert (record["test"], record["mean_test"]) == (None, None)
    invoke("report", *NAMES, "--output", "page")
    page = (folder / "page" / "index.html").read_text()
    assert NO_TEST_ROWS in page
    assert "misclassified" not in page
    assert "sclsearch confirm" not in page
    tracking = f"sqlite:///{folder}/mlflow.db"
    with closing(WriterProcess(tracking, folder / "storage")) as writer:
        track_study(folder / "storage", "first", writer)
    client = connect(tracking)
    experiments = [one.experiment_id for one in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.{LEVEL} = 'study' and run_name = 'first'")
    assert ("val" in run.data.metrics, "test" in run.data.metrics) == (True, False)


def test_no_rows_are_taken_for_testing() -> None:
    task: Any = as_task(FRAME, fractions=(1.0, 0.0, 0.0))
    data, plain = load_task(task), PROTOCOLS["plain"]
    for protocol in (plain, laptop(plain)):
        splits = protocol.splits(data, None, protocol.replicate(0))
        parts = splits.train, splits.validation, splits.test
        assert [len(rows.index) for rows in parts] == [48, 12, 0]
        assert NO_TEST_ROWS in splits.notes
    splits = with_folds(plain, 3).splits(data, None, plain.replicate(0))
    assert (len(splits.train.index), len(splits.test.index)) == (40, 20)
    assert splits.test == splits.validation
    assert splits.notes == (
        "no rows are for the test alone: each seed is validated and tested on one of 3 folds, "
        "about 20 of 60 rows",
    )
