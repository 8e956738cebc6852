"""Tests of failures in the scheduler: retries, bad nodes, scores and early stops."""

from dataclasses import replace

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.failures import RETRIES, WorkerFailure, WorkerFailures
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure
from tests.workspace import MakeSpec, Prepare, Workers

FIRST, SECOND, THIRD = (f"10.0.0.{number}" for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("cause", "retries"),
    [*dict.fromkeys(("hang", "out-of-memory", "gpu-assert"), 1).items(), ("worker-lost", 4)],
)
def test_a_lost_seed_run_is_retried_and_then_fails(
    prepare: Prepare, workers: Workers, cause: str, retries: int
) -> None:
    scheduler = prepare(configs=1, seeds=1)
    (task,) = workers.running(scheduler)
    for other in {"hang", "gpu-assert"} - {cause}:  # each cause has retries of its own
        scheduler.record_failure(task, WorkerFailure(other, "seen", FIRST))
        assert scheduler.next() == task
    for _ in range(retries):
        scheduler.record_failure(task, WorkerFailure(cause, "seen", FIRST))
        assert scheduler.runs.get(task.key) is None
        assert scheduler.next() == task
    scheduler.record_failure(task, WorkerFailure(cause, "seen", FIRST))
    failed = scheduler.state.seed_runs[task.id]
    assert failed.failure == Failure(cause, "seen")
    assert (failed.origin["configuration"], failed.origin["replicate"]) == task.id
    assert scheduler.complete
    # A lost or slow worker says nothing about the seed run: the next search trains it again.
    final = cause in {"out-of-memory", "gpu-assert"}
    assert scheduler.runs.get(task.key) == (failed if final else None)


def fail_all(scheduler: Scheduler, failure: WorkerFailure) -> None:
    while (task := scheduler.next()) is not None:
        scheduler.record_failure(task, failure)


def test_lost_nodes_fail_no_seed_run_and_the_least_lost_ones_come_first(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare()
    order = []
    for _ in range(120):
        (task,) = workers.running(scheduler, 1)
        order.append(task.id)
        scheduler.record_failure(task, WorkerFailure("node-lost", "seen", FIRST))
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1)] * 30
    assert not scheduler.state.seed_runs


def test_one_bad_node_is_named_and_fails_no_seed_run(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare(configs=20, concurrency=8)
    first, *_ = workers.running(scheduler, at_a_time=8)
    scheduler.finish(first, workers.trained(first), node=SECOND)
    with pytest.raises(SclsearchError, match=rf"^node {FIRST}: .* seen\. Repair"):
        fail_all(scheduler, WorkerFailure("worker-lost", "seen", FIRST))
    assert [*scheduler.state.seed_runs] == [first.id]


def test_an_unfit_node_is_left_out_until_all_nodes_are_unfit() -> None:
    failures = WorkerFailures()
    for attempt in range(100):
        assert failures.add((0, attempt % 2), WorkerFailure("node-unfit", "old torch", FIRST))
        failures.check_nodes([FIRST, SECOND])
    failures.add((0, 0), WorkerFailure("node-unfit", "no model", SECOND))
    with pytest.raises(SclsearchError) as caught:
        failures.check_nodes([FIRST, SECOND])
    assert str(caught.value) == f"node {FIRST}: old torch\nnode {SECOND}: no model"
    failures.finished_on(SECOND)
    failures.check_nodes([FIRST, SECOND])


@pytest.mark.parametrize(
    ("cause", "finished_on", "nodes"),
    [
        ("worker-lost", FIRST, [FIRST]),
        ("worker-lost", SECOND, [FIRST, THIRD]),
        ("worker-lost", SECOND, [""]),
        ("gpu-assert", SECOND, [FIRST]),
    ],
)
def test_a_seed_run_fails_if_no_single_node_is_to_blame(
    prepare: Prepare, workers: Workers, cause: str, finished_on: str, nodes: list[str]
) -> None:
    scheduler = prepare(configs=1)
    good, bad = workers.running(scheduler)
    scheduler.finish(good, workers.trained(good), node=finished_on)
    for attempt in range(int(RETRIES[cause]) + 1):
        scheduler.record_failure(bad, WorkerFailure(cause, "seen", nodes[attempt % len(nodes)]))
        scheduler.next()
    assert scheduler.state.seed_runs[bad.id].failure == Failure(cause, "seen")


def test_a_run_stored_meanwhile_by_another_study_counts(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare()
    (task,) = workers.running(scheduler, 1)
    scheduler.runs.put(workers.trained(task))
    for _ in range(2):
        scheduler.record_failure(task, WorkerFailure("hang", "seen"))
    assert scheduler.state.seed_runs[task.id].failure is None


def test_a_failed_seed_counts_as_the_metrics_minimum(
    prepare: Prepare, workers: Workers, make_spec: MakeSpec
) -> None:
    spec = make_spec()
    assert not isinstance(spec.task, str)
    scheduler = prepare(replace(spec, task=replace(spec.task, metric="mcc")))
    good, bad = workers.running(scheduler, at_a_time=2)
    workers.finish(scheduler, good)
    assert 0 not in scheduler.state.scores
    scheduler.finish(bad, workers.failed(bad))
    value = scheduler.state.seed_runs[good.id].validated("mcc")
    assert value is not None
    assert scheduler.state.scores[0].score == scheduler.state.first_scores()[0] == (value - 1) / 2


def test_a_search_whose_first_seed_runs_fail_alike_stops_and_can_be_resumed(
    prepare: Prepare, workers: Workers
) -> None:
    for expected in ([(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)]):
        scheduler = prepare()
        first, second = workers.running(scheduler, 2)
        for task in (first, second):
            scheduler.runs.put(workers.failed(task))
        scheduler.finish(first, workers.failed(first))
        with pytest.raises(SclsearchError, match=r"^method scl: the first 2 .* a test\. Fix"):
            scheduler.finish(second, workers.failed(second))
        assert [*scheduler.state.seed_runs] == expected
    last = prepare()
    workers.run_out(last)
    assert last.complete


def test_a_search_with_different_failures_or_one_success_continues(
    prepare: Prepare, workers: Workers
) -> None:
    raised, diverged = Failure("raised", "a test"), Failure("non-finite", "a test")
    for failures in ((None, raised), (replace(raised, message="b"), raised), (diverged, diverged)):
        scheduler = prepare()
        for task, failure in zip(workers.running(scheduler, 2), failures, strict=True):
            scheduler.finish(task, replace(workers.trained(task), failure=failure))
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
    assert workers.run_out(again) == [bad.id]
    assert again.complete
    aside = (again.runs.folder / "retried").names()
    assert [name.partition("-")[0] for name in aside] == [bad.key]
    assert workers.running(prepare(configs=1, retry_failed=True)) == []
