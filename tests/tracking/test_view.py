"""Tests of an experiment's page in MLflow: winner, lead and ranking."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import sclsearch
from sclsearch.search.scheduler import Scheduler
from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.ranking import StudyResult, ranking_of_studies
from sclsearch.tracking.server import connect, tracking_uri
from sclsearch.tracking.server import prepare as prepare_database
from sclsearch.tracking.view import VIEW, describe_experiment
from tests.tracking.conftest import Shown, track
from tests.workspace import Prepare, Workers


def finish(scheduler: Scheduler, workers: Workers, right: Sequence[int]) -> None:
    """Finish a search in which configuration `i` classifies `right[i]` of 20 rows correctly."""
    while tasks := workers.running(scheduler):
        task = tasks[0]
        number = right[task.configuration.number]
        counts = {"validation": {"confusion": [[number, 20 - number], [0, 0]]}}
        run = workers.trained(task)
        run = replace(run, evaluations=({**run.evaluations[0], **counts},))
        scheduler.runs.put(run)
        scheduler.finish(task, run)


def test_the_winner_is_in_the_first_row_among_equal_scores(
    prepare: Prepare, workers: Workers, uri: str, shown: Shown
) -> None:
    for study in ("b", "a"):
        scheduler = Scheduler(prepare(study=study, race="off").begin())
        finish(scheduler, workers, (12, 15, 15, 15))
        logger = MLflowLogger(uri)
        logger.sync(scheduler.state)
        assert logger.close() is None
        assert scheduler.state.winner is not None
        assert scheduler.state.winner.number == 1
    (experiment,) = shown.client.search_experiments(filter_string="name != 'Default'")
    describe_experiment(shown.client, experiment.experiment_id)
    tags = shown.client.get_experiment(experiment.experiment_id).tags
    view = json.loads(tags[f"mlflow.sharedViewState.{VIEW}"])
    rows = shown.client.search_runs(
        [experiment.experiment_id],
        view["searchFilter"],
        order_by=[f"{view['orderByKey']} {'ASC' if view['orderByAsc'] else 'DESC'}"],
    )
    names = [run.data.tags["sclsearch.id"] for run in rows]
    configurations = [(name[0], int(name.rpartition("/")[2])) for name in names]
    best = [(study, number) for study in ("a", "b") for number in (1, 2, 3)]
    assert configurations == [*best, ("a", 0), ("b", 0)]
    assert "| 1 | a | scl |" in tags["mlflow.note.content"]


def test_the_experiment_description_has_the_lead_of_the_winner(
    prepare: Prepare,
    workers: Workers,
    uri: str,
    shown: Shown,
    tmp_path: Path,
) -> None:
    firsts = []
    for study in ("b", "a"):
        finish(Scheduler(prepare(study=study, race="off").begin()), workers, (12, 15, 18, 9))
        track(tmp_path / "storage", study, uri)
        (experiment,) = shown.client.search_experiments(filter_string="name != 'Default'")
        firsts.append(experiment.tags["mlflow.note.content"].splitlines()[0])
    assert ", accuracy 0.9000, 0.1500 above the second configuration; test " in firsts[0]
    assert ", accuracy 0.9000, 0.0000 above b; test " in firsts[1]


def test_studies_of_another_metric_or_data_set_are_ranked_separately() -> None:
    first = StudyResult(
        "a", "scl", "d1", "plain", "mean", "tau=0.3", "accuracy", 0.8, "", 0.8, None
    )
    others = [replace(first, study="b", metric="macro_f1", score=0.95), replace(first, data="d2")]
    text = ranking_of_studies([first, replace(first, study="c", score=0.7), *others])
    assert text.count("**Winner: ") == 3
    assert text.startswith("**Winner: scl tau=0.3**, accuracy 0.8000, 0.1000 above c;")
    assert "| 1 | b | scl | tau=0.3 | 0.9500 |  |" in text


def test_the_description_no_longer_ranks_a_removed_study(
    prepare: Prepare, workers: Workers, tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    uri = tracking_uri(None, storage)
    prepare_database(uri)
    for study in ("b", "a"):
        finish(Scheduler(prepare(study=study, race="off").begin()), workers, (12, 15, 18, 9))
        track(storage, study, uri)
    client = connect(uri)
    (experiment,) = client.search_experiments(filter_string="name != 'Default'")
    for removed, ranked in (("", ["a", "b"]), ("a", ["b"]), ("b", [])):
        if removed:
            sclsearch.remove(removed, storage=storage)
        text = client.get_experiment(experiment.experiment_id).tags["mlflow.note.content"]
        assert [name for name in ("a", "b") if f" | {name} | scl | " in text] == ranked
