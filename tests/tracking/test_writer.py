"""Three levels of runs, complete, and the same however often they are written."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from sclsearch.tracking import ConfigurationView, ScoreView, StudyView, View, complete, writer

if TYPE_CHECKING:
    from tests.tracking.conftest import Shown


def test_study_configuration_and_seed_run_are_found_as_three_levels(
    uri: str, shown: "Shown", study: list[View]
) -> None:
    assert complete(uri, study) == 1 + 2 + 2 * 3
    runs = shown.runs()
    inside = shown.client.search_runs(
        [runs["cola-scl"].info.experiment_id],
        f"tags.mlflow.parentRunId = '{runs['cola-scl/1'].info.run_id}'",
    )
    assert {run.info.run_name for run in inside} == {f"#1 seed {r}" for r in range(3)}
    assert runs["cola-scl/1"].data.tags["mlflow.parentRunId"] == runs["cola-scl"].info.run_id
    assert "mlflow.parentRunId" not in runs["cola-scl"].data.tags
    assert [runs[name].info.run_name for name in ("cola-scl", "cola-scl/1")] == ["cola-scl", "#1"]
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert runs["cola-scl"].data.params == {"method": "scl", "task": "cola"}
    assert runs["cola-scl"].data.metrics == {"best": 0.6}
    assert runs["cola-scl/1"].data.params == {"tau": "0.2"}


def test_a_seed_run_shows_its_evaluations_its_times_and_its_key(
    uri: str, shown: "Shown", study: list[View]
) -> None:
    complete(uri, study)
    run = shown.runs()["cola-scl/1/2"]
    assert shown.points()["cola-scl/1/2"] == {
        "validation/mcc": [(10, 0.1), (20, 0.2), (30, 0.3)],
        "test/mcc": [(30, 0.4)],
    }
    assert (run.info.start_time, run.info.end_time) == (1_700_000_000_000, 1_700_000_012_500)
    assert run.data.tags["sclsearch.key"] == "key-1-2"
    assert shown.artifact(run, "history.json") == {"number": 1}


def test_artefacts_lie_beside_the_database(uri: str, study: list[View], tmp_path: Path) -> None:
    complete(uri, study)
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow.db", "mlartifacts"}
    assert len(list((tmp_path / "mlartifacts").rglob("history.json"))) == 6


def test_a_replay_writes_nothing(uri: str, shown: "Shown", study: list[View]) -> None:
    complete(uri, study)
    before, ends = shown.everything(), {n: r.info.end_time for n, r in shown.runs().items()}
    assert complete(uri, study) == 0
    assert shown.everything() == before
    assert {n: r.info.end_time for n, r in shown.runs().items()} == ends


def test_a_run_left_open_between_two_writes_gets_only_what_is_missing(
    uri: str, shown: "Shown", study: list[View]
) -> None:
    complete(uri, study)
    before = shown.everything()
    for run in shown.runs().values():
        shown.client.update_run(run.info.run_id, status="RUNNING")
    assert complete(uri, study) == 0
    assert shown.everything() == before


def test_a_score_goes_on_with_growing_steps_and_equal_values_are_not_repeated(
    uri: str, shown: "Shown"
) -> None:
    for value in (0.5, 0.5, 0.7, 0.6):
        complete(uri, [ScoreView("s", 0, {"score": value, "seeds": 3.0})])
    assert shown.points()["s/0"] == {
        "score": [(0, 0.5), (1, 0.7), (2, 0.6)],
        "seeds": [(0, 3.0)],
    }
    assert shown.runs()["s/0"].info.status == "RUNNING"


def test_a_score_stands_even_if_it_was_shown_before_another(uri: str, shown: "Shown") -> None:
    for value, finished in ((0.5, False), (0.7, False), (0.5, False), (0.7, True)):
        complete(uri, [ScoreView("s", 0, {"score": value}, finished)])
        assert shown.runs()["s/0"].data.metrics == {"score": value}


def test_the_last_score_stands_where_the_clock_goes_back(
    uri: str, shown: "Shown", monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((200.0, 100.0))
    monkeypatch.setattr(writer, "time", SimpleNamespace(time=lambda: next(clock)))
    for value in (0.7, 0.5):
        complete(uri, [ScoreView("s", 0, {"score": value}, finished=True)])
    assert shown.runs()["s/0"].data.metrics == {"score": 0.5}


def test_a_parameter_too_long_for_mlflow_becomes_an_artefact(uri: str, shown: "Shown") -> None:
    views = [ConfigurationView("s", 0, {"tau": 0.1, "prompt": "x" * 6001, "label": "y" * 6000})]
    for _ in range(2):
        complete(uri, views)
    run = shown.runs()["s/0"]
    assert run.data.params == {"tau": "0.1", "label": "y" * 6000}
    assert shown.artifact(run, "long_params.json") == {"prompt": "x" * 6001}


def test_parameters_stay_and_new_ones_and_changed_tags_are_added(uri: str, shown: "Shown") -> None:
    complete(uri, [StudyView("s", {"task": "rte"}, {"host": "node1"})])
    complete(uri, [StudyView("s", {"task": "other", "seeds": 5}, {"host": "node2"})])
    run = shown.runs()["s"]
    assert run.data.params == {"task": "rte", "seeds": "5"}
    assert run.data.tags["host"] == "node2"


def test_a_changed_artefact_is_written_again(uri: str, shown: "Shown") -> None:
    for content in ({"winner": 1}, {"winner": 2}):
        complete(uri, [StudyView("s", artifacts={"report.json": content})])
    assert shown.artifact(shown.runs()["s"], "report.json") == {"winner": 2}


def test_studies_of_one_name_do_not_write_into_each_other(uri: str, shown: "Shown") -> None:
    for mark, task in (("1", "cola"), ("2", "rte")):
        name = f"same@{mark}"
        views: list[View] = [StudyView(name, {"task": task}), ConfigurationView(name, 0, {"a": 1})]
        assert complete(uri, views) == 2
        assert complete(uri, views) == 0
    runs = shown.runs()
    assert {*runs} == {"same@1", "same@1/0", "same@2", "same@2/0"}
    assert [runs[f"same@{mark}"].data.params["task"] for mark in "12"] == ["cola", "rte"]
    assert {run.data.tags["sclsearch.study"] for run in runs.values()} == {"same"}
    assert [runs[f"same@{mark}"].info.run_name for mark in "12"] == ["same", "same"]
