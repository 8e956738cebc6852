"""Tests of studies whose task has no test rows: reports show validation scores alone."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import sclsearch
from sclsearch.cli import app
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.store.runs import RunStore
from sclsearch.tasks import load_task
from sclsearch.tracking.server import LEVEL, connect, prepare
from tests.in_process import in_process
from tests.tracking.conftest import track

ROWS = [
    {"nr": f"n{number}", "text": f"it was {word} {number}", "label": number % 2}
    for number in range(60)
    for word in [("good", "bad")[number % 2]]
]
FRAME = pd.DataFrame(ROWS)
NAMES = ("first", "second")


@pytest.fixture(scope="module")
def folder(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working directory with the storage of two studies without test rows."""
    folder = tmp_path_factory.mktemp("untested")
    options: dict[str, Any] = {
        "fractions": (0.8, 0.2, 0.0),
        "id": "nr",
        "model": tiny_bert,
        "settings": {"epochs": 1, "max_length": 16},
        "seeds": 2,
        "storage": folder / "storage",
        "tracking": f"sqlite:///{folder}/mlflow.db",
        "gpus_per_trial": 0,
        "progress": False,
    }
    with pytest.MonkeyPatch.context() as patch, in_process():
        patch.chdir(folder)
        (folder / "data.csv").write_text(FRAME.to_csv(index=False, sep=";"))
        sclsearch.tune(task=FRAME, method="ce", configs=2, study=NAMES[0], **options)
        sclsearch.tune(
            task="data.csv", method="ce", configs=1, test_scores="winner", study=NAMES[1], **options
        )
    return folder


def invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments, *(["--storage", "storage"] * (code == 0))])
    assert result.exit_code == 0, result.output
    return result.output


def test_seed_runs_have_validation_scores_alone(folder: Path) -> None:
    found = sclsearch.select(NAMES[0], storage=folder / "storage")
    assert not found.has_test
    assert NO_TEST_ROWS in found.notes
    for line in (*found.configurations, *found.baselines):
        assert (line.test_mean, line.untested, line.failed) == (None, 0, 0)
        assert line.score is not None
    assert set(found.predictions()["split"]) == {"validation"}
    keys = [seed.key for line in found.configurations for seed in line.seeds]
    for run in RunStore(folder / "storage").get_all(keys):
        assert run is not None
        assert run.identity["rows"].keys() == {"train", "validation"}
        assert not run.untested


def test_a_data_frame_and_its_file_are_one_task(folder: Path) -> None:
    first, second = (sclsearch.select(name, storage=folder / "storage") for name in NAMES)
    assert first.data == second.data
    assert first.rows == second.rows
    keys = {seed.key for line in first.configurations for seed in line.seeds}
    assert keys >= {seed.key for seed in second.configurations[0].seeds}


def test_commands_name_the_missing_test_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for command in (
        ["show", NAMES[0]],
        ["compare", *NAMES],
        ["export", NAMES[0], "model", "--force"],
        ["confirm", NAMES[1], "--seeds", "2", "--gpus-per-trial", "0", "--tracking", "none"],
    ):
        with in_process():
            printed = " ".join(invoke(*command).split())
        assert NO_TEST_ROWS in printed, command
        assert "--test-scores" not in printed
    assert json.loads(invoke("compare", *NAMES, "--json"))["studies"][1]["comparison"] is None
    assert "validation" in invoke("show", *NAMES, "--format", "md")
    assert "None" not in invoke("show", *NAMES, "--rows", "winners", "--format", "csv")
    assert NO_TEST_ROWS in (folder / "model" / "README.md").read_text()
    record = json.loads((folder / "model" / "sclsearch.json").read_text())
    assert (record["test"], record["mean_test"]) == (None, None)


def test_the_page_and_mlflow_have_no_test_scores(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    invoke("report", *NAMES, "--output", "page")
    page = (folder / "page" / "index.html").read_text()
    assert NO_TEST_ROWS in page
    assert "misclassified" not in page
    assert "sclsearch confirm" not in page
    tracking = f"sqlite:///{folder}/mlflow.db"
    prepare(tracking)
    track(folder / "storage", NAMES[0], tracking)
    client = connect(tracking)
    experiments = [one.experiment_id for one in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.{LEVEL} = 'study' and run_name = '{NAMES[0]}'")
    assert "score" in run.data.metrics
    assert "test" not in run.data.metrics


@pytest.mark.parametrize(
    ("options", "rows", "kept"),
    [
        ({"fractions": (0.8, 0.2, 0.0)}, (48, 12), True),
        ({"fractions": (1.0, 0.0, 0.0)}, (48, 12), True),
        ({"validation": "dev.csv"}, (60, 60), True),
        ({}, None, False),
    ],
)
def test_plain_takes_no_test_rows_from_the_validation_rows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    rows: tuple[int, int] | None,
    kept: bool,
) -> None:
    from sclsearch.protocols import PROTOCOLS
    from sclsearch.protocols.variants import SCALES, with_splits
    from sclsearch.tasks import as_task

    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    FRAME.assign(text="new " + FRAME["text"]).to_csv("dev.csv", index=False)
    task: Any = as_task("rows.csv", **options)
    plain = PROTOCOLS["plain"]
    for protocol in (plain, SCALES["laptop"](plain)):
        splits = protocol.splits(load_task(task), None, protocol.replicate(0))
        assert rows in (None, (len(splits.train.index), len(splits.validation.index)))
        assert (len(splits.test.index) == 0) == kept
        assert (NO_TEST_ROWS in splits.notes) == kept
    repeated = with_splits(plain, 3)
    splits = repeated.splits(load_task(task), None, repeated.replicate(1))
    assert (len(splits.test.index) == 0) == kept
    assert splits.validation.split == "train"
