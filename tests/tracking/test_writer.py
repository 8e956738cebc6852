"""Three levels of runs, complete, and the same however often they are written."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sclsearch.tracking import (
    ConfigurationView,
    ScoreView,
    SeedRunView,
    StudyView,
    Tracker,
    View,
    complete,
)

SEED_RUN = SeedRunView("s", 0, 0, "k", evaluations=((5, {"loss": 1.0}),), started=10.0, seconds=2.0)


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri)


def runs_in(uri: str) -> dict[str, Any]:
    """Returns MLflow's runs by our name of them; a name that occurs twice fails."""
    client = client_of(uri)
    experiment = client.get_experiment_by_name("sclsearch")
    if experiment is None:
        return {}
    runs = client.search_runs([experiment.experiment_id], max_results=5000)
    by_name = {run.data.tags["sclsearch.id"]: run for run in runs}
    assert len(by_name) == len(runs)
    return by_name


def points_in(uri: str) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Returns every metric point of every run, as step and value."""
    client = client_of(uri)
    return {
        name: {
            key: sorted((p.step, p.value) for p in client.get_metric_history(run.info.run_id, key))
            for key in run.data.metrics
        }
        for name, run in runs_in(uri).items()
    }


def shown_in(uri: str) -> dict[str, object]:
    """Returns all that does not depend on when it was written."""
    points = points_in(uri)
    return {
        name: (
            run.info.run_name,
            run.info.status,
            run.data.params,
            {key: tag for key, tag in run.data.tags.items() if key != "mlflow.parentRunId"},
            points[name],
        )
        for name, run in runs_in(uri).items()
    }


def artifact(uri: str, run: Any, name: str) -> object:
    from mlflow.artifacts import load_text

    return json.loads(load_text(f"{run.info.artifact_uri}/{name}"))


def test_study_configuration_and_seed_run_are_found_as_three_levels(
    uri: str, study: list[View]
) -> None:
    assert complete(uri, study) == 1 + 2 + 2 * 3
    runs = runs_in(uri)
    inside = client_of(uri).search_runs(
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
    uri: str, study: list[View]
) -> None:
    complete(uri, study)
    run = runs_in(uri)["cola-scl/1/2"]
    assert points_in(uri)["cola-scl/1/2"] == {
        "validation/mcc": [(10, 0.1), (20, 0.2), (30, 0.3)],
        "test/mcc": [(30, 0.4)],
    }
    assert (run.info.start_time, run.info.end_time) == (1_700_000_000_000, 1_700_000_012_500)
    assert run.data.tags["sclsearch.key"] == "key-1-2"
    assert artifact(uri, run, "history.json") == {"number": 1}


def test_artefacts_lie_beside_the_database(uri: str, study: list[View], tmp_path: Path) -> None:
    complete(uri, study)
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow.db", "mlartifacts"}
    assert len(list((tmp_path / "mlartifacts").rglob("history.json"))) == 6


def test_a_replay_writes_nothing(uri: str, study: list[View]) -> None:
    complete(uri, study)
    before, ends = shown_in(uri), {n: r.info.end_time for n, r in runs_in(uri).items()}
    assert complete(uri, study) == 0
    assert shown_in(uri) == before
    assert {n: r.info.end_time for n, r in runs_in(uri).items()} == ends


@pytest.mark.slow
def test_a_driver_killed_while_it_writes_is_completed_without_duplicates(
    uri: str, fresh_database: Path, tmp_path: Path
) -> None:
    views: list[View] = [StudyView("s", {"task": "rte"}), ConfigurationView("s", 0, {"tau": 0.1})]
    views += [
        dataclasses.replace(SEED_RUN, replicate=r, artifacts={"a.json": [r]}) for r in range(150)
    ]
    program = (
        "import dataclasses, sys\n"
        "from sclsearch.tracking import *\n"
        f"one = {SEED_RUN!r}\n"
        "views = [StudyView('s', {'task': 'rte'}), ConfigurationView('s', 0, {'tau': 0.1})]\n"
        "views += [dataclasses.replace(one, replicate=r, artifacts={'a.json': [r]})"
        " for r in range(150)]\n"
        "complete(sys.argv[1], views)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", program, uri])
    deadline = time.monotonic() + 30
    while len(runs_in(uri)) < 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    there = len(runs_in(uri))
    assert 20 <= there < len(views)
    assert complete(uri, views) == len(views) - there

    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    other = f"sqlite:///{undisturbed}/mlflow.db"
    (undisturbed / "mlflow.db").write_bytes(fresh_database.read_bytes())
    complete(other, views)
    assert shown_in(uri) == shown_in(other)


def test_a_run_left_open_between_two_writes_gets_only_what_is_missing(
    uri: str, study: list[View]
) -> None:
    complete(uri, study)
    before = shown_in(uri)
    for run in runs_in(uri).values():
        client_of(uri).update_run(run.info.run_id, status="RUNNING")
    assert complete(uri, study) == 0
    assert shown_in(uri) == before


def test_a_score_goes_on_with_growing_steps_and_equal_values_are_not_repeated(uri: str) -> None:
    for value in (0.5, 0.5, 0.7, 0.6):
        complete(uri, [ScoreView("s", 0, {"score": value, "seeds": 3.0})])
    assert points_in(uri)["s/0"] == {
        "score": [(0, 0.5), (1, 0.7), (2, 0.6)],
        "seeds": [(0, 3.0)],
    }
    assert runs_in(uri)["s/0"].info.status == "RUNNING"


def test_a_resumed_study_does_not_repeat_its_earlier_scores(uri: str) -> None:
    for _ in range(2):
        tracker = Tracker(uri)
        for value, finished in ((0.5, False), (0.7, False), (0.6, True)):
            tracker.put(ScoreView("s", 0, {"score": value}, finished))
        assert tracker.close() is None
    assert points_in(uri)["s/0"]["score"] == [(0, 0.5), (1, 0.7), (2, 0.6)]


def test_a_final_score_stands_even_if_it_was_shown_before_another(uri: str) -> None:
    for value in (0.5, 0.7):
        complete(uri, [ScoreView("s", 0, {"score": value})])
    complete(uri, [ScoreView("s", 0, {"score": 0.5}, finished=True)])
    assert runs_in(uri)["s/0"].data.metrics == {"score": 0.5}


def test_of_several_scores_in_one_replay_the_last_counts(uri: str) -> None:
    complete(uri, [ScoreView("s", 0, {"score": v}) for v in (0.1, 0.2, 0.3)])
    assert points_in(uri)["s/0"] == {"score": [(0, 0.3)]}


def test_a_failed_seed_run_is_shown_as_failed_until_it_succeeds(uri: str) -> None:
    failed = dataclasses.replace(SEED_RUN, failed=True, tags={"failure": "non-finite"})
    complete(uri, [failed])
    assert runs_in(uri)["s/0/0"].info.status == "FAILED"
    assert runs_in(uri)["s/0/0"].data.tags["failure"] == "non-finite"
    longer = dataclasses.replace(SEED_RUN, evaluations=((5, {"loss": 1.0}), (9, {"loss": 0.5})))
    complete(uri, [longer])
    assert runs_in(uri)["s/0/0"].info.status == "FINISHED"
    assert points_in(uri)["s/0/0"] == {"loss": [(5, 1.0), (9, 0.5)]}


def test_values_that_are_not_finite_are_left_out_and_named(uri: str) -> None:
    bad = {"a": math.nan, "b": math.inf, "c": 1.0}
    complete(uri, [dataclasses.replace(SEED_RUN, summary=bad), ScoreView("s", 0, bad)])
    for name in ("s/0", "s/0/0"):
        run = runs_in(uri)[name]
        assert run.data.tags["sclsearch.not_finite"] == "a, b"
        assert run.data.metrics["c"] == 1.0
        assert not {"a", "b"} & run.data.metrics.keys()


def test_a_parameter_too_long_for_mlflow_becomes_an_artefact(uri: str) -> None:
    views = [ConfigurationView("s", 0, {"tau": 0.1, "prompt": "x" * 6001, "label": "y" * 6000})]
    for _ in range(2):
        complete(uri, views)
    run = runs_in(uri)["s/0"]
    assert run.data.params == {"tau": "0.1", "label": "y" * 6000}
    assert artifact(uri, run, "long_params.json") == {"prompt": "x" * 6001}


def test_parameters_stay_and_new_ones_and_changed_tags_are_added(uri: str) -> None:
    complete(uri, [StudyView("s", {"task": "rte"}, {"host": "node1"})])
    complete(uri, [StudyView("s", {"task": "other", "seeds": 5}, {"host": "node2"})])
    run = runs_in(uri)["s"]
    assert run.data.params == {"task": "rte", "seeds": "5"}
    assert run.data.tags["host"] == "node2"


def test_a_changed_artefact_is_written_again(uri: str) -> None:
    for content in ({"winner": 1}, {"winner": 2}):
        complete(uri, [StudyView("s", artifacts={"report.json": content})])
    assert artifact(uri, runs_in(uri)["s"], "report.json") == {"winner": 2}


def test_studies_share_an_experiment_and_nothing_else(uri: str) -> None:
    assert complete(uri, [SEED_RUN]) == 3
    assert complete(uri, [dataclasses.replace(SEED_RUN, study="s2")]) == 3
    assert set(runs_in(uri)) == {"s", "s/0", "s/0/0", "s2", "s2/0", "s2/0/0"}


def test_two_thousand_metrics_of_one_seed_run_arrive(uri: str) -> None:
    many = tuple((u, {"loss": 1 / u, "mcc": 0.1}) for u in range(1, 1001))
    complete(uri, [dataclasses.replace(SEED_RUN, evaluations=many)])
    assert len(points_in(uri)["s/0/0"]["loss"]) == 1000


@pytest.mark.parametrize("place", ["s", "s/0"], ids=["study", "configuration"])
def test_a_child_that_comes_before_its_parent_finds_its_place(uri: str, place: str) -> None:
    complete(uri, [SEED_RUN])
    complete(uri, [StudyView("s", {"p": 1}), ConfigurationView("s", 0, {"p": 1})])
    assert runs_in(uri)[place].data.params == {"p": "1"}
    assert len(runs_in(uri)) == 3
