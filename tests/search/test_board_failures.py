"""The board knows what a lost seed run means, and what a failed one is worth."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.search.board import Board
from sclsearch.search.options import What
from sclsearch.search.prepare import Prepared
from sclsearch.search.retries import Loss
from sclsearch.store.objects import names
from sclsearch.store.runs import Failure

if TYPE_CHECKING:
    from tests.search.conftest import Workers

Preparing = Callable[..., Prepared]
Asked = Callable[..., What]
NODE_LOST = Loss("node-lost", "seen", "10.0.0.1")


@pytest.mark.parametrize(
    ("cause", "retries"),
    [
        ("hang", 1),
        ("out-of-memory", 1),
        ("gpu-assert", 1),
        ("worker-lost", 4),
        ("worker-silent", 20),
    ],
)
def test_a_lost_seed_run_is_tried_again_and_then_fails_for_good(
    preparing: Preparing, cause: str, retries: int
) -> None:
    board = preparing(configs=1, seeds=1).board()
    task = board.next()
    assert task is not None
    for _ in range(retries):
        board.lose(task, Loss(cause, "seen", "10.0.0.1"))
        assert board.runs.get(task.key) is None
        assert board.next() == task
    board.lose(task, Loss(cause, "seen", "10.0.0.1"))
    stored = board.runs.get(task.key)
    assert stored is not None
    assert stored.failure == Failure(cause, "seen")
    assert (stored.origin["configuration"], stored.origin["replicate"]) == task.place
    assert board.done[task.place] == stored
    assert board.complete


def test_a_lost_seed_run_goes_behind_those_that_were_lost_less_often(
    preparing: Preparing,
) -> None:
    board = preparing().board()
    order = []
    for _ in range(6):
        task = board.next()
        assert task is not None
        order.append(task.place)
        board.lose(task, NODE_LOST)
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1)]


def test_a_lost_node_is_never_the_seed_runs_fault(preparing: Preparing) -> None:
    board = preparing(configs=1, seeds=1).board()
    for _ in range(30):
        task = board.next()
        assert task is not None
        board.lose(task, NODE_LOST)
    assert not board.done


def lose_to_the_end(board: Board, loss: Loss) -> None:
    while (task := board.next()) is not None:
        board.lose(task, loss)


@pytest.mark.parametrize("cause", ["worker-lost", "node-unfit"])
def test_one_bad_node_of_eight_fails_no_seed_run_for_good_and_is_named(
    preparing: Preparing, workers: "Workers", cause: str
) -> None:
    board = preparing(configs=20, concurrency=8).board()
    first, *_ = workers.running(board, at_a_time=8)
    board.runs.put(workers.trained(first))
    board.finish(first, workers.trained(first), node="10.0.0.2")
    with pytest.raises(
        SclsearchError, match=r"^node 10.0.0.1: it must be able to do seed runs, .* seen\. Mend"
    ):
        lose_to_the_end(board, Loss(cause, "seen", "10.0.0.1"))
    assert [*board.done] == [first.place]


@pytest.mark.parametrize(
    ("finished_on", "nodes"),
    [("10.0.0.1", ["10.0.0.1"]), ("10.0.0.2", ["10.0.0.1", "10.0.0.3"]), ("10.0.0.2", [""])],
    ids=["the only node", "two nodes", "nobody knows where"],
)
def test_workers_that_die_on_no_single_node_are_the_seed_runs_fault(
    preparing: Preparing, workers: "Workers", finished_on: str, nodes: list[str]
) -> None:
    board = preparing(configs=1).board()
    good, bad = workers.running(board)
    board.runs.put(workers.trained(good))
    board.finish(good, workers.trained(good), node=finished_on)
    for attempt in range(5):
        board.lose(bad, Loss("worker-lost", "seen", nodes[attempt % len(nodes)]))
        board.next()
    assert board.done[bad.place].failure == Failure("worker-lost", "seen")


def test_an_assertion_on_a_gpu_is_the_seed_runs_fault_wherever_it_comes(
    preparing: Preparing, workers: "Workers"
) -> None:
    board = preparing(configs=1).board()
    good, bad = workers.running(board)
    board.runs.put(workers.trained(good))
    board.finish(good, workers.trained(good), node="10.0.0.2")
    for _ in range(2):
        board.lose(bad, Loss("gpu-assert", "seen", "10.0.0.1"))
        board.next()
    assert board.done[bad.place].failure == Failure("gpu-assert", "seen")


def test_causes_are_counted_apart_and_for_each_seed_run_apart(
    preparing: Preparing, workers: "Workers"
) -> None:
    board = preparing().board()
    for cause in ("hang", "out-of-memory", "worker-lost"):
        first, second = workers.running(board, at_a_time=2)
        board.lose(first, Loss(cause, "seen"))
        board.lose(second, Loss(cause, "seen"))
    assert board.done == {}


def test_a_seed_run_that_was_not_begun_waits_as_before(preparing: Preparing) -> None:
    board = preparing().board()
    first = board.next()
    assert first is not None
    for _ in range(30):
        board.put_back(first)
        assert board.running == {}
        assert board.next() == first
    assert board.losses.count(first.place) == 0


def test_a_run_that_another_study_stored_meanwhile_counts_and_not_the_loss(
    preparing: Preparing, workers: "Workers"
) -> None:
    board = preparing().board()
    task = board.next()
    assert task is not None
    board.lose(task, Loss("hang", "seen"))
    board.runs.put(workers.trained(task))
    board.lose(task, Loss("hang", "seen"))
    assert board.done[task.place].failure is None


@pytest.mark.parametrize(("metric", "minimum"), [("accuracy", 0.0), ("mcc", -1.0)])
def test_a_failed_seed_counts_as_the_metrics_minimum(
    preparing: Preparing, workers: "Workers", asked: Asked, metric: str, minimum: float
) -> None:
    what = asked()
    assert not isinstance(what.task, str)
    board = preparing(replace(what, task=replace(what.task, metric=metric))).board()
    good, bad = workers.running(board, at_a_time=2)
    workers.finish(board, good)
    assert board.score(0) is None
    board.finish(bad, workers.failed(bad))
    figure = board.done[good.place].validated(board.study.metric)
    assert figure is not None
    assert board.score(0) == (figure + minimum) / 2


def test_failed_seed_runs_stay_failed_until_they_shall_be_retried(
    preparing: Preparing, workers: "Workers"
) -> None:
    board = preparing(configs=1).board()
    good, bad = workers.running(board)
    workers.finish(board, good)
    board.runs.put(workers.failed(bad))
    same = preparing(configs=1).board()
    assert workers.running(same) == []
    assert same.complete
    again = preparing(configs=1).board(retry_failed=True)
    assert workers.running(again) == [bad]
    workers.finish(again, bad)
    assert again.complete
    aside = names(again.runs.folder / "retried")
    assert [name.partition("-")[0] for name in aside] == [bad.key]
    assert workers.running(preparing(configs=1).board(retry_failed=True)) == []
