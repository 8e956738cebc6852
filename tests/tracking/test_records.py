"""Tests of the MLflow records of a search state, during and after a search."""

from dataclasses import replace

import pytest

from sclsearch.search.scheduler import Scheduler
from sclsearch.study.state import SearchState, stored_state
from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.records import counts, new_records
from tests.tracking.conftest import Shown
from tests.workspace import Prepare, Workers


def from_store(prepared: Scheduler) -> SearchState:
    replicates, configurations = prepared.store.replicates(), prepared.store.configurations()
    rule = prepared.study.rule
    state, faults = stored_state(prepared.runs, prepared.record, replicates, configurations, rule)
    assert faults == []
    return state


def test_results_are_logged_as_they_arrive_and_a_later_sync_adds_nothing(
    prepare: Prepare, workers: Workers, uri: str, shown: Shown
) -> None:
    prepared = prepare(configs=2).begin()
    scheduler, logger = replace(prepared), MLflowLogger(uri)
    for task in workers.running(scheduler):
        workers.finish(scheduler, task)
        logger.sync(scheduler.state, ended=False)
    logger.sync(scheduler.state)
    assert logger.close() is None
    before = shown.everything()
    runs = shown.runs()
    winner = scheduler.state.winner
    assert winner is not None
    name = prepared.record.mlflow_name
    assert runs[name].data.metrics["score"] == winner.score
    assert runs[name].data.metrics["test"] == winner.test_mean
    assert runs[f"{name}/1"].data.metrics["score"] == scheduler.state.scores[1].score
    assert runs[f"{name}/1/0"].data.tags["key"] == scheduler.state.seed_runs[1, 0].key
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    track = MLflowLogger(uri)
    for _ in range(2):
        track.sync(from_store(prepared))
    assert track.close() is None
    assert shown.everything() == before


def test_each_call_returns_only_the_new_records(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare(configs=1)
    first, second = workers.running(scheduler)
    paths = [record.path for record in new_records(scheduler.state, ended=False)]
    assert paths == [(), (0,)]
    for task, gained in ((first, [(0, 0)]), (second, [(0, 1), (0,)])):
        since = counts(scheduler.state)
        workers.finish(scheduler, task)
        records = list(new_records(scheduler.state, since, ended=False))
        assert [record.path for record in records] == gained
        assert records[-1].status == "FINISHED"
    since = counts(scheduler.state)
    assert list(new_records(scheduler.state, since, ended=False)) == []
    (winner,) = new_records(scheduler.state, since)
    assert (winner.path, winner.status) == ((), "FINISHED")


@pytest.mark.parametrize("missing", [0, 1])
def test_a_study_is_finished_once_all_its_configurations_are(
    prepare: Prepare, workers: Workers, missing: int
) -> None:
    prepared = prepare(configs=2).begin()
    scheduler = replace(prepared)
    workers.run_out(scheduler)
    for run in [*scheduler.state.seed_runs.values()][:missing]:
        (prepared.runs.folder / f"{run.key}.json").remove()
    records = [record for record in new_records(from_store(prepared)) if record.metrics]
    assert records[-1].path == ()
    assert records[-1].status == (None if missing else "FINISHED")


def test_a_failed_seed_run_has_its_cause_and_no_scores(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare(configs=1)
    task, _ = workers.running(scheduler)
    scheduler.finish(task, workers.failed(task))
    failed = next(r for r in new_records(scheduler.state) if r.path == task.id)
    assert failed.status == "FAILED"
    assert failed.tags == {"key": task.key, "failure": "raised: a test"}
    assert failed.history == ((0, {"seconds": 0.0}),)


def test_different_studies_with_one_name_have_different_mlflow_names(prepare: Prepare) -> None:
    record = prepare(study="same").record
    others = (
        replace(record, created=record.created + 1),
        replace(record, identity={**record.identity, "task": "another"}),
        replace(record, training={**record.training, "data": "another"}),
    )
    names = {one.mlflow_name for one in (record, *others)}
    assert len(names) == 4
    assert {name.partition("@")[0] for name in names} == {"same"}
    assert replace(record, origin={}).mlflow_name == record.mlflow_name


def test_deferred_test_scores_are_logged_for_seed_run_configuration_and_study(
    prepare: Prepare, workers: Workers, uri: str, shown: Shown
) -> None:
    prepared = prepare(configs=3, seeds=3, test_scores="winner").begin()
    scheduler, logger = replace(prepared), MLflowLogger(uri)
    while tasks := workers.running(scheduler, 1):
        workers.finish(scheduler, tasks[0])
        logger.sync(scheduler.state, ended=False)
    logger.sync(scheduler.state)
    assert logger.close() is None
    runs, winner = shown.runs(), scheduler.state.winner
    assert winner is not None
    name = prepared.record.mlflow_name
    number = winner.number
    tested = {one for one, run in runs.items() if "test" in run.data.metrics}
    assert tested == {name, f"{name}/{number}", *(f"{name}/{number}/{seed}" for seed in range(3))}
    assert runs[name].data.metrics["test"] == winner.test_mean
    assert runs[f"{name}/{number}"].data.metrics["test"] == winner.test_mean
    before, track = shown.everything(), MLflowLogger(uri)
    track.sync(from_store(prepared))
    assert track.close() is None
    assert shown.everything() == before


def test_a_stopped_search_logs_no_scores_of_an_untested_winner(
    prepare: Prepare, workers: Workers, uri: str, shown: Shown
) -> None:
    prepared = prepare(configs=3, seeds=3, test_scores="winner").begin()
    scheduler, logger = replace(prepared), MLflowLogger(uri)
    workers.decide(scheduler)
    logger.sync(scheduler.state)
    assert logger.close() is None
    study = shown.runs()[prepared.record.mlflow_name]
    assert not {"score", "test"} & study.data.metrics.keys()
