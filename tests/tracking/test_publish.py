"""Tests of the result of a study in MLflow: report, winner, table, and deletion of runs."""

import json
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

import sclsearch
from sclsearch.errors import SclsearchError
from sclsearch.reports.notes import Note
from sclsearch.reports.report import finished_winner, report
from sclsearch.reports.summary import summary_of
from sclsearch.store.studies import StudyStore
from sclsearch.tasks import load_task
from sclsearch.tracking.process import WriterProcess
from sclsearch.tracking.publish import (
    _find_model,
    check_model_name,
    delete_runs,
    publish,
    track_study,
    tracked_run_ids,
)
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import prepare_database, tracking_uri
from sclsearch.tracking.writer import Writer
from tests.made_up import study_on
from tests.studies import RECORD
from tests.tracking.conftest import Shown

pytestmark = pytest.mark.slow
TEXTS = ["the film was good", "it was awful, and long"]


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trained study with the weights of its winner."""
    return study_on(tiny_bert, tmp_path_factory.mktemp("trained"))


def track(storage: Path, uri: str) -> str | None:
    """Write to MLflow what it lacks of the study."""
    with closing(WriterProcess(uri, storage)) as writer:
        return track_study(storage, "mine", writer)


def study_run(shown: Shown) -> Any:
    """Return the run of the only study."""
    (run,) = [run for run in shown.runs().values() if run.data.tags["level"] == "study"]
    return run


def artifacts(shown: Shown, run: Any) -> dict[str, str]:
    """Return the texts of a run's artifacts by name."""
    from mlflow.artifacts import load_text

    names = [file.path for file in shown.client.list_artifacts(run.info.run_id)]
    return {name: load_text(f"{run.info.artifact_uri}/{name}") for name in names}


def registered(storage: Path, uri: str, name: str | None) -> tuple[str | None, str | None]:
    """Write the study to MLflow, and its winner to the registry if a name is given."""
    track(storage, uri)
    with closing(WriterProcess(uri, storage)) as writer:
        return publish(writer, report(storage, "mine"), registered_name=name)


def test_a_study_run_has_its_scores_its_report_and_its_page_once_that_can_be_drawn(
    trained: Path, uri: str, shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.manifold", None)  # the page cannot be drawn
        warning = str(track(trained, uri))
    assert warning.startswith("MLflow lacks report.html of mine: ")
    assert artifacts(shown, study_run(shown)).keys() == {"report.json", "study.json"}
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mlflow", None)  # a search does not wait for its import
        assert track(trained, uri) is None
    assert len(shown.runs()) == 4
    selection = sclsearch.select("mine", storage=trained)
    score = finished_winner(selection).score
    run = study_run(shown)
    assert run.data.metrics["val"] == score
    text = run.data.tags["mlflow.note.content"]
    assert text.startswith("No configuration of scl is useful.")
    assert text.startswith("\n\n".join(summary_of(selection).lines))
    assert "artifact `report.html`" in text
    assert not re.search("[0-9a-f]{12}", text)  # a hash or a key
    files = artifacts(shown, run)
    assert files.keys() == {"report.html", "report.json", "study.json"}
    assert json.loads(files["report.json"])["study"] == "mine"
    experiment = shown.client.get_experiment(run.info.experiment_id)
    assert experiment.name.startswith("demo, 8 examples, ")
    assert selection.data[:36] in {one.dataset.digest for one in run.inputs.dataset_inputs}
    rows = [escape(text)[:250] for (text,) in load_task("demo").splits["test"].texts]
    page, file = files["report.html"], tmp_path / "report" / "index.html"
    sclsearch.write_report("mine", output=file.parent, storage=trained, texts=False)
    assert page == file.read_text(encoding="utf-8")
    sclsearch.write_report("mine", output=file.parent, storage=trained)
    for text, shows in ((page, False), (file.read_text(encoding="utf-8"), True)):
        assert any(row in text for row in rows) == shows


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_registered_model_predicts_like_the_exported_winner_and_is_written_once(
    trained: Path, uri: str, shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    registered(trained, uri, "sentiment")
    before = shown.everything()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.figure", None)  # draws no figure again
        assert registered(trained, uri, "sentiment") == ("sentiment version 1", None)
    assert shown.everything() == before
    experiments = [one.experiment_id for one in shown.client.search_experiments()]
    assert len(shown.client.search_logged_models(experiments)) == 1
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    model = mlflow.pyfunc.load_model("models:/sentiment/1")
    assert model.metadata.get_input_schema().input_names() == ["text"]
    table = model.predict(pd.DataFrame({"text": TEXTS}))
    sclsearch.export("mine", tmp_path / "winner", storage=trained, force=True)
    expected = sclsearch.load(tmp_path / "winner").predict(TEXTS)
    assert table["label"].tolist() == [one.label for one in expected]
    for label in expected[0].scores:
        assert table[f"score.{label}"].tolist() == [one.scores[label] for one in expected]
    with pytest.raises(SclsearchError, match=r"^text 1: must be a text"):
        model.predict(pd.DataFrame({"text": ["a text", None]}))


def test_the_winner_becomes_a_model_once_the_search_has_finished(
    trained: Path, uri: str, shown: Shown
) -> None:
    found = report(trained, "mine")
    with closing(WriterProcess(uri, trained)) as writer:
        for finished in (False, True):
            publish(writer, replace(found, finished=finished))
            experiment = study_run(shown).info.experiment_id
            assert len(shown.client.search_logged_models([experiment])) == finished


def test_a_page_of_other_data_and_the_model_of_another_seed_run_are_replaced(
    trained: Path, uri: str, shown: Shown
) -> None:
    found = report(trained, "mine")
    winner, study = finished_winner(found), found.record.mlflow_name
    with closing(WriterProcess(uri, trained)) as writer:
        publish(writer, found)
        publish(writer, replace(found, notes=(Note("a later note"),)))
        assert "a later note" in artifacts(shown, study_run(shown))["report.html"]
        best = winner.seeds[winner.reported[0]].key
        assert writer.call(_find_model, study, best)
        assert writer.call(_find_model, study, "another") is None
        assert not shown.client.search_logged_models([study_run(shown).info.experiment_id])


@pytest.mark.parametrize("name", [None, "sentiment"])
def test_a_removed_study_leaves_no_model_unless_it_is_registered(
    trained: Path, uri: str, shown: Shown, tmp_path: Path, name: str | None
) -> None:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    registered(tmp_path, uri, name)
    experiment = study_run(shown).info.experiment_id
    assert shown.client.search_logged_models([experiment])
    sclsearch.remove("mine", storage=tmp_path)
    assert shown.runs() == {}
    assert bool(shown.client.search_logged_models([experiment])) == (name is not None)


def test_an_invalid_model_name_is_refused() -> None:
    for name in ("a/b", "a:b", "it's", " "):
        with pytest.raises(SclsearchError, match=f"^--register: .* got {name!r}"):
            check_model_name(name, "http://there", own_method=False)
    with pytest.raises(SclsearchError, match=r"^--register mine: needs MLflow, which"):
        check_model_name("mine", None, own_method=False)
    with pytest.raises(SclsearchError, match=r"^--register mine: MLflow cannot load a method"):
        check_model_name("mine", "http://there", own_method=True)


def test_only_the_runs_of_a_study_are_deleted_also_in_a_folder_with_special_characters(
    tmp_path: Path,
) -> None:
    storage = tmp_path / "50% of #1%20?"
    store = StudyStore(storage, RECORD.name)
    store.create(RECORD)
    assert tracked_run_ids(storage, store) == tracked_run_ids("s3://bucket/folder", store) == []
    delete_runs(storage, [])  # there is no database yet
    uri = tracking_uri(None, storage)
    prepare_database(uri)
    writer = Writer(uri)
    for name in (RECORD.mlflow_name, f"{RECORD.name}@other"):
        writer.write(RunRecord(name, artifacts={"space.json": "[1]"}))
        writer.write(RunRecord(name, (0,)))
    assert len([*storage.rglob("space.json")]) == 2
    ids = tracked_run_ids(storage, store)
    assert len(ids) == 2
    other = StudyStore(tmp_path / "linked", RECORD.name)
    other.create(RECORD)
    (tmp_path / "linked" / "mlflow.db").symlink_to(storage / "mlflow.db")
    assert tracked_run_ids(tmp_path / "linked", other) == []
    delete_runs(storage, ids)
    assert {name.partition("/")[0] for name in Shown(uri).runs()} == {"first@other"}
    assert tracked_run_ids(storage, store) == []


def test_a_damaged_database_is_named_and_nothing_is_deleted(tmp_path: Path) -> None:
    StudyStore(tmp_path, RECORD.name).create(RECORD)
    (tmp_path / "mlflow.db").write_bytes(b"no database at all")
    message = rf"^{tmp_path}/mlflow\.db: MLflow cannot read or change it: .* Move the file away\.$"
    with pytest.raises(SclsearchError, match=message):
        sclsearch.remove(RECORD.name, storage=tmp_path)
    uri = tracking_uri(None, tmp_path)
    (tmp_path / "mlflow.db").unlink()
    prepare_database(uri)
    Writer(uri).write(RunRecord(RECORD.mlflow_name))
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute(
            "CREATE TRIGGER frozen BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    with pytest.raises(SclsearchError, match=message):
        sclsearch.remove(RECORD.name, storage=tmp_path)
    assert StudyStore(tmp_path, RECORD.name).record() == RECORD
