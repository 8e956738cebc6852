"""Tests of studies in MLflow: report pages, experiments and registered models."""

import json
import shutil
import sys
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

import sclsearch
from sclsearch.errors import SclsearchError
from sclsearch.reports.page import PageOptions
from sclsearch.reports.report import finished_winner, report
from sclsearch.tasks import load_task
from sclsearch.tracking.model import check_model_name
from sclsearch.tracking.publish import TrackedStudy, publish
from sclsearch.tracking.records import experiment_name
from sclsearch.tracking.view import VIEW, pages
from tests.reports.trained import Trained
from tests.tracking.conftest import Shown, track
from tests.workspace import Prepare

TEXTS = ["the film was good", "it was awful, and long"]
DESCRIPTION = "mlflow.note.content"


def registered(storage: Path, uri: str, name: str | None) -> TrackedStudy:
    """Write the study to MLflow, and its winner to the registry if a name is given."""
    track(storage, "mine", uri)
    page = PageOptions(texts=False)
    return publish(uri, report(storage, "mine"), storage, page, registered_name=name)


@pytest.mark.slow
def test_a_study_run_has_its_report_and_its_experiment_has_the_ranking(
    trained: Trained, uri: str, shown: Shown
) -> None:
    result = track(trained.storage, "mine", uri)
    assert (len(shown.runs()), result.registered) == (4, None)
    selection = sclsearch.select("mine", storage=trained.storage)
    score = finished_winner(selection).score
    run = shown.study()
    assert run.data.metrics["score"] == score
    assert f"validation {selection.metric} {score:.4f}" in run.data.tags[DESCRIPTION]
    results: Any = shown.artifact(run, "report.json")
    assert results["study"] == "mine"
    assert shown.files(run) == {"report.html", "report.json", "study.json"}
    experiment = shown.client.get_experiment(run.info.experiment_id)
    assert experiment.name.startswith("demo, 8 examples, ")
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{VIEW}"])
    assert (view["orderByKey"], view["orderByAsc"]) == ("metrics.`score`", False)
    assert pages(uri, "http://there")[0][0] == experiment.name
    digests = {one.dataset.digest for one in run.inputs.dataset_inputs}
    assert selection.data[:36] in digests


@pytest.mark.slow
def test_the_page_in_mlflow_equals_the_report_and_has_texts_only_on_request(
    trained: Trained, uri: str, shown: Shown, tmp_path: Path
) -> None:
    pages = {}
    for texts in (False, True):
        result = track(trained.storage, "mine", uri, texts=texts)
        assert result.warning is None
        pages[texts] = shown.text(shown.study(), "report.html")
        written = sclsearch.write_report(
            "mine", output=tmp_path / f"{texts}", storage=trained.storage, texts=texts
        )
        assert pages[texts] == written.read_text(encoding="utf-8")
    rows = load_task("demo").splits["test"].texts
    misclassified = [escape(text) for (text,) in rows if escape(text)[:250] in pages[True]]
    assert misclassified
    assert not any(text[:250] in pages[False] for text in misclassified)


@pytest.mark.slow
def test_a_failed_report_page_is_a_warning_and_the_next_call_writes_it(
    trained: Trained, uri: str, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.manifold", None)
        result = track(trained.storage, "mine", uri)
    assert result.warning is not None
    assert result.warning.startswith("MLflow lacks report.html of mine: ")
    assert "sklearn.manifold" in result.warning
    run = shown.study()
    assert run.data.metrics["score"] > 0
    assert "report.html" not in shown.files(run)
    assert track(trained.storage, "mine", uri).warning is None
    assert "report.html" in shown.files(run)


@pytest.mark.slow
def test_a_repeated_track_changes_nothing_and_draws_no_figure_until_the_page_changes(
    trained: Trained, uri: str, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(trained.storage, uri, "sentiment")
    before = shown.everything()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = registered(trained.storage, uri, "sentiment")
    assert (result.registered, result.warning) == ("sentiment version 1", None)
    assert shown.everything() == before
    experiments = [one.experiment_id for one in shown.client.search_experiments()]
    assert len(shown.client.search_logged_models(experiments)) == 1

    assert "matplotlib.figure" in str(track(trained.storage, "mine", uri, texts=True).warning)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_registered_model_predicts_like_the_exported_winner(
    trained: Trained, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    registered(trained.storage, uri, "sentiment")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    model = mlflow.pyfunc.load_model("models:/sentiment/1")
    assert model.metadata.get_input_schema().input_names() == ["text"]
    table = model.predict(pd.DataFrame({"text": TEXTS}))
    trained.export(tmp_path / "winner")
    expected = sclsearch.predict(tmp_path / "winner", TEXTS)
    assert table["label"].tolist() == [one.label for one in expected]
    for label in expected[0].scores:
        assert table[f"score.{label}"].tolist() == [one.scores[label] for one in expected]
    with pytest.raises(SclsearchError, match=r"^text 1: must be a text"):
        model.predict(pd.DataFrame({"text": ["a text", None]}))


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, "sentiment"])
def test_a_removed_study_leaves_no_model_unless_it_is_registered(
    trained: Trained, uri: str, shown: Shown, tmp_path: Path, name: str | None
) -> None:
    shutil.copytree(trained.storage, tmp_path, dirs_exist_ok=True)
    registered(tmp_path, uri, name)
    experiment = shown.study().info.experiment_id
    assert shown.client.search_logged_models([experiment])
    sclsearch.remove("mine", storage=tmp_path)
    assert shown.runs() == {}
    assert bool(shown.client.search_logged_models([experiment])) == (name is not None)


@pytest.mark.parametrize("name", ["a/b", "a:b", "it's", " "])
def test_an_invalid_model_name_is_refused(uri: str, name: str) -> None:
    with pytest.raises(SclsearchError, match=f"^--register: .* got {name!r}"):
        check_model_name(name, uri)


@pytest.mark.parametrize(
    ("size", "name"),
    [
        ("100", "demo, 100 examples, "),
        ("20-per-class", "demo, 20 examples per class, "),
        (None, "demo, all examples, "),
    ],
)
def test_an_experiment_is_named_by_task_size_and_model(
    prepare: Prepare, size: str | None, name: str
) -> None:
    record = prepare(study="same").record
    record = replace(record, identity={**record.identity, "task": "demo", "size": size})
    assert experiment_name(record) == name + str(record.identity["model"])
