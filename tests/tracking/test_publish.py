"""MLflow's pages answer which configuration won, and MLflow serves the winner."""

import json
from typing import TYPE_CHECKING, Any

import pytest

import sclsearch
from sclsearch.errors import SclsearchError
from sclsearch.tasks import load_task
from sclsearch.tracking import pages, publish
from sclsearch.tracking.names import experiment_name
from sclsearch.tracking.publish import track_study
from sclsearch.tracking.view import VIEW
from tests.reports.trained import Trained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sclsearch.study.prepared import PreparedStudy
    from tests.tracking.conftest import Shown

TEXTS = ["the film was good", "it was awful, and long"]
DESCRIPTION = "mlflow.note.content"


@pytest.mark.slow
def test_a_study_has_its_report_and_its_experiment_the_ranking(
    trained: Trained, uri: str, shown: "Shown"
) -> None:
    done = track_study(trained.storage, "mine", uri)
    assert (done.created, done.registered) == (4, None)
    found = sclsearch.select("mine", storage=trained.storage)
    assert found.winner is not None
    (run,) = [run for run in shown.runs().values() if run.data.tags["level"] == "study"]
    assert run.data.metrics["score"] == found.winner.score
    first = run.data.tags[DESCRIPTION].splitlines()[0]
    assert f"validation {found.metric} {found.winner.score:.4f}" in first
    report: Any = shown.artifact(run, "report.json")
    assert report["study"] == "mine"
    rows = len(load_task("demo").splits["test"].texts)
    assert sum(map(sum, report["confusion"]["test"])) == 2 * rows
    files = {file.path for file in shown.client.list_artifacts(run.info.run_id)}
    assert files == {"confusion.png", "report.json", "report.md", "study.json"}
    experiment = shown.client.get_experiment(run.info.experiment_id)
    assert experiment.name.startswith("demo, 8 examples, ")
    assert "| 1 | mine | scl |" in experiment.tags[DESCRIPTION]
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{VIEW}"])
    assert (view["orderByKey"], view["orderByAsc"]) == ("metrics.`score`", False)
    assert pages(uri, "http://there")[0][0] == experiment.name
    digests = {one.dataset.digest for one in run.inputs.dataset_inputs}
    assert found.data[:36] in digests


@pytest.mark.slow
def test_a_repeated_track_changes_nothing(trained: Trained, uri: str, shown: "Shown") -> None:
    track_study(trained.storage, "mine", uri, "sentiment")
    before = shown.everything()
    again = track_study(trained.storage, "mine", uri, "sentiment")
    assert (again.created, again.registered) == (0, "sentiment version 1")
    assert shown.everything() == before
    experiments = [one.experiment_id for one in shown.client.search_experiments()]
    assert len(shown.client.search_logged_models(experiments)) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_registered_model_predicts_like_the_exported_winner(
    trained: Trained, uri: str, tmp_path: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    track_study(trained.storage, "mine", uri, "sentiment")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    model = mlflow.pyfunc.load_model("models:/sentiment/1")
    assert model.metadata.get_input_schema().input_names() == ["text"]
    table = model.predict(pd.DataFrame({"text": TEXTS}))
    trained.export(tmp_path / "winner")
    expected = sclsearch.predict(tmp_path / "winner", TEXTS)
    assert table["label"].tolist() == [one.label for one in expected]
    for label in expected[0].scores:
        assert table[f"score.{label}"].tolist() == [one.scores[label] for one in expected]


@pytest.mark.slow
def test_a_description_that_a_person_wrote_stays(
    trained: Trained, uri: str, shown: "Shown"
) -> None:
    track_study(trained.storage, "mine", uri)
    (run,) = [run for run in shown.runs().values() if run.data.tags["level"] == "study"]
    shown.client.set_experiment_tag(run.info.experiment_id, DESCRIPTION, "Our notes.")
    found = sclsearch.select("mine", storage=trained.storage)
    publish(uri, found, trained.storage)
    tags = shown.client.get_experiment(run.info.experiment_id).tags
    assert tags[DESCRIPTION] == "Our notes."


@pytest.mark.parametrize("name", ["a/b", "a:b", "it's", " "])
def test_a_name_that_the_registry_does_not_accept_is_refused_before_anything_is_written(
    trained: Trained, uri: str, shown: "Shown", name: str
) -> None:
    with pytest.raises(SclsearchError, match=f"^--register: .* got {name!r}"):
        track_study(trained.storage, "mine", uri, name)
    assert shown.runs() == {}


@pytest.mark.parametrize(
    ("size", "name"),
    [
        ("100", "demo, 100 examples, "),
        ("20-per-class", "demo, 20 examples per class, "),
        (None, "demo, all examples, "),
    ],
)
def test_an_experiment_is_named_by_task_size_and_model(
    preparing: "Callable[..., PreparedStudy]", size: str | None, name: str
) -> None:
    from dataclasses import replace

    record = preparing(study="same").record
    record = replace(record, identity={**record.identity, "task": "demo", "size": size})
    assert experiment_name(record) == name + str(record.identity["model"])
