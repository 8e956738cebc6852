"""Tests of failures in the scheduler: retries, bad nodes, scores and early stops."""

from dataclasses import replace

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.failures import RETRIES, WorkerFailure, WorkerFailures
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure
from tests.workspace import MakeSpec, Prepare, Workers

NODE_LOST = WorkerFailure("node-lost", "seen", "10.0.0.1")


@pytest.mark.parametrize(
    ("cause", "retries"),
    [("hang", 1), ("out-of-memory", 1), ("gpu-assert", 1), ("worker-lost", 4)],
)
def test_a_lost_seed_run_is_retried_and_then_fails(
    prepare: Prepare, cause: str, retries: int
) -> None:
    scheduler = prepare(configs=1, seeds=1)
    task = scheduler.next()
    assert task is not None
    for _ in range(retries):
        scheduler.record_failure(task, WorkerFailure(cause, "seen", "10.0.0.1"))
        assert scheduler.runs.get(task.key) is None
        assert scheduler.next() == task
    scheduler.record_failure(task, WorkerFailure(cause, "seen", "10.0.0.1"))
    stored = scheduler.runs.get(task.key)
    assert stored is not None
    assert stored.failure == Failure(cause, "seen")
    assert (stored.origin["configuration"], stored.origin["replicate"]) == task.id
    assert scheduler.state.seed_runs[task.id] == stored
    assert scheduler.complete


def test_lost_nodes_fail_no_seed_run_and_the_least_lost_ones_come_first(
    prepare: Prepare,
) -> None:
    scheduler = prepare()
    order = []
    for _ in range(120):
        task = scheduler.next()
        assert task is not None
        order.append(task.id)
        scheduler.record_failure(task, NODE_LOST)
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1)] * 30
    assert not scheduler.state.seed_runs


def fail_all(scheduler: Scheduler, failure: WorkerFailure) -> None:
    while (task := scheduler.next()) is not None:
        scheduler.record_failure(task, failure)


def test_one_bad_node_is_named_and_fails_no_seed_run(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare(configs=20, concurrency=8)
    first, *_ = workers.running(scheduler, at_a_time=8)
    scheduler.runs.put(workers.trained(first))
    scheduler.finish(first, workers.trained(first), node="10.0.0.2")
    with pytest.raises(
        SclsearchError, match=r"^node 10.0.0.1: a seed run failed there .* seen\. Repair"
    ):
        fail_all(scheduler, WorkerFailure("worker-lost", "seen", "10.0.0.1"))
    assert [*scheduler.state.seed_runs] == [first.id]


def test_an_unfit_node_is_left_out_until_all_nodes_are_unfit() -> None:
    failures, first, second = WorkerFailures(), "10.0.0.1", "10.0.0.2"
    for attempt in range(100):
        assert failures.add((0, attempt % 2), WorkerFailure("node-unfit", "old torch", first))
        failures.check_nodes([first, second])
    failures.add((0, 0), WorkerFailure("node-unfit", "no model", second))
    with pytest.raises(SclsearchError) as caught:
        failures.check_nodes([first, second])
    assert str(caught.value) == "node 10.0.0.1: old torch\nnode 10.0.0.2: no model"
    failures.finished_on(second)
    failures.check_nodes([first, second])


@pytest.mark.parametrize(
    ("cause", "finished_on", "nodes"),
    [
        ("worker-lost", "10.0.0.1", ["10.0.0.1"]),
        ("worker-lost", "10.0.0.2", ["10.0.0.1", "10.0.0.3"]),
        ("worker-lost", "10.0.0.2", [""]),
        ("gpu-assert", "10.0.0.2", ["10.0.0.1"]),
    ],
    ids=["the only node", "two nodes", "unknown node", "a GPU assertion"],
)
def test_a_seed_run_fails_if_no_single_node_is_to_blame(
    prepare: Prepare, workers: Workers, cause: str, finished_on: str, nodes: list[str]
) -> None:
    scheduler = prepare(configs=1)
    good, bad = workers.running(scheduler)
    scheduler.runs.put(workers.trained(good))
    scheduler.finish(good, workers.trained(good), node=finished_on)
    for attempt in range(int(RETRIES[cause]) + 1):
        scheduler.record_failure(bad, WorkerFailure(cause, "seen", nodes[attempt % len(nodes)]))
        scheduler.next()
    assert scheduler.state.seed_runs[bad.id].failure == Failure(cause, "seen")


def test_failures_are_counted_by_cause_and_seed_run(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare(configs=1)
    for cause in ("hang", "out-of-memory", "gpu-assert", "worker-lost"):
        for task in workers.running(scheduler):
            scheduler.record_failure(task, WorkerFailure(cause, "seen"))
    assert scheduler.state.seed_runs == {}
    first, second = workers.running(scheduler)
    scheduler.record_failure(first, WorkerFailure("hang", "seen"))
    assert scheduler.state.seed_runs.keys() == {first.id}
    assert workers.running(scheduler) == [second]


def test_a_released_seed_run_returns_to_the_queue(prepare: Prepare) -> None:
    scheduler = prepare()
    first = scheduler.next()
    assert first is not None
    for _ in range(30):
        scheduler.release(first)
        assert scheduler.running == {}
        assert scheduler.next() == first
    assert scheduler.worker_failures.count(first.id) == 0


def test_a_run_stored_meanwhile_by_another_study_counts(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare()
    task = scheduler.next()
    assert task is not None
    scheduler.record_failure(task, WorkerFailure("hang", "seen"))
    scheduler.runs.put(workers.trained(task))
    scheduler.record_failure(task, WorkerFailure("hang", "seen"))
    assert scheduler.state.seed_runs[task.id].failure is None


@pytest.mark.parametrize(("metric", "minimum"), [("accuracy", 0.0), ("mcc", -1.0)])
def test_a_failed_seed_counts_as_the_metrics_minimum(
    prepare: Prepare, workers: Workers, make_spec: MakeSpec, metric: str, minimum: float
) -> None:
    spec = make_spec()
    assert not isinstance(spec.task, str)
    scheduler = replace(prepare(replace(spec, task=replace(spec.task, metric=metric))))
    good, bad = workers.running(scheduler, at_a_time=2)
    workers.finish(scheduler, good)
    assert 0 not in scheduler.state.scores
    scheduler.finish(bad, workers.failed(bad))
    value = scheduler.state.seed_runs[good.id].validated(scheduler.study.metric)
    assert value is not None
    assert scheduler.state.scores[0].score == (value + minimum) / 2


def test_a_search_whose_first_seed_runs_fail_alike_stops_and_can_be_resumed(
    prepare: Prepare, workers: Workers
) -> None:
    def fail(scheduler: Scheduler) -> None:
        task = scheduler.next()
        assert task is not None
        scheduler.runs.put(workers.failed(task))
        scheduler.finish(task, workers.failed(task))

    def stopped() -> Scheduler:
        scheduler = prepare()
        fail(scheduler)
        with pytest.raises(
            SclsearchError, match=r"^method scl: the first 2 .* error: a test\. Fix"
        ):
            fail(scheduler)
        return scheduler

    assert [*stopped().state.seed_runs] == [(0, 0), (0, 1)]
    assert len(stopped().state.seed_runs) == 4
    last = prepare()
    while task := last.next():
        workers.finish(last, task)
    assert last.complete


@pytest.mark.parametrize(
    "failures",
    [
        [None, Failure("raised", "a test")],
        [Failure("raised", "another"), Failure("raised", "a test")],
        [Failure("non-finite", "a test")] * 2,
    ],
    ids=["one success", "two errors", "not finite"],
)
def test_a_search_with_different_failures_or_one_success_continues(
    prepare: Prepare, workers: Workers, failures: list[Failure | None]
) -> None:
    scheduler = prepare()
    for task, failure in zip(workers.running(scheduler, at_a_time=2), failures, strict=True):
        run = replace(workers.failed(task), failure=failure) if failure else workers.trained(task)
        scheduler.finish(task, run)
    assert workers.running(scheduler)


def test_failed_seed_runs_are_trained_again_only_on_request(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare(configs=1)
    good, bad = workers.running(scheduler)
    workers.finish(scheduler, good)
    scheduler.runs.put(workers.failed(bad))
    same = prepare(configs=1)
    assert workers.running(same) == []
    assert same.complete
    again = prepare(configs=1, retry_failed=True)
    assert [task.key for task in workers.running(again)] == [bad.key]
    workers.finish(again, bad)
    assert again.complete
    aside = (again.runs.folder / "retried").names()
    assert [name.partition("-")[0] for name in aside] == [bad.key]
    assert workers.running(prepare(configs=1, retry_failed=True)) == []
