"""Tests of the MLflow records of a search state, during and after a search."""

from dataclasses import replace

import pytest

from sclsearch.search.scheduler import Scheduler
from sclsearch.study.state import SearchState, stored_state
from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.records import experiment_name, new_records
from tests.studies import Prepare, Workers
from tests.tracking.conftest import Shown


def from_store(prepared: Scheduler) -> SearchState:
    replicates, configurations = prepared.store.replicates(), prepared.store.configurations()
    rule = prepared.study.rule
    state, faults = stored_state(prepared.runs, prepared.record, replicates, configurations, rule)
    assert faults == []
    return state


def sync(uri: str, *states: SearchState) -> None:
    logger = MLflowLogger(uri, "storage")
    for state in states:
        logger.sync(state)
    assert logger.close() is None


def test_results_are_logged_as_they_arrive_and_a_later_sync_adds_nothing(
    prepare: Prepare, uri: str, shown: Shown
) -> None:
    workers = Workers(environment={"cpu": "a CPU", "driver": "550.54.15"})
    prepared = prepare(configs=2).begin()
    scheduler, logger = replace(prepared), MLflowLogger(uri, prepared.storage)
    for task in workers.running(scheduler):
        workers.finish(scheduler, task)
        logger.sync(scheduler.state, ended=False)
    logger.sync(scheduler.state)
    assert logger.close() is None
    before, runs = shown.everything(), shown.runs()
    winner = scheduler.state.winner
    assert winner is not None
    name = prepared.record.mlflow_name
    assert runs[name].data.metrics["val"] == winner.score
    assert runs[name].data.metrics["test"] == winner.test_mean
    assert runs[f"{name}/1"].data.metrics["val"] == scheduler.state.scores[1].score
    tags = {"key": scheduler.state.seed_runs[1, 0].key, "device": "a CPU", "driver": "550.54.15"}
    assert tags.items() <= runs[f"{name}/1/0"].data.tags.items()
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    sync(uri, from_store(prepared), from_store(prepared))
    assert shown.everything() == before


@pytest.mark.parametrize("missing", [0, 1])
def test_a_study_is_finished_once_all_its_configurations_are(
    prepare: Prepare, workers: Workers, missing: int
) -> None:
    prepared = prepare(configs=2).begin()
    scheduler = replace(prepared)
    workers.run_out(scheduler)
    for run in [*scheduler.state.seed_runs.values()][:missing]:
        (prepared.runs.folder / f"{run.key}.json").remove()
    last = [record for record in new_records(from_store(prepared)) if record.metrics][-1]
    assert (last.path, last.status) == ((), None if missing else "FINISHED")
    assert () not in {one.path for one in new_records(from_store(prepared), (0,) * 4, ended=False)}


def test_studies_have_unique_names_and_share_an_experiment_by_task_size_and_model(
    prepare: Prepare,
) -> None:
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
    identity = {**record.identity, "task": "demo", "size": "20-per-class", "model": "minilm"}
    few = replace(record, identity=identity)
    assert experiment_name(few) == "demo, 20 examples per class, minilm"
