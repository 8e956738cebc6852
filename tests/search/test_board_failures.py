"""The board knows what a lost seed run means, and what a failed one is worth."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sclsearch.search.board import RETRIES
from sclsearch.search.options import What
from sclsearch.search.prepare import Prepared
from sclsearch.store.objects import names
from sclsearch.store.runs import Failure

if TYPE_CHECKING:
    from tests.search.conftest import Workers

Preparing = Callable[..., Prepared]
Asked = Callable[..., What]


@pytest.mark.parametrize(
    ("cause", "retries"),
    [
        ("hang", 1),
        ("out-of-memory", 1),
        ("worker-lost", 4),
        ("storage-lost", 4),
        ("worker-silent", 20),
        ("node-unfit", 20),
    ],
)
def test_a_lost_seed_run_is_tried_again_and_then_fails_for_good(
    preparing: Preparing, cause: str, retries: int
) -> None:
    board = preparing().board()
    task = board.next()
    assert task is not None
    for _ in range(retries):
        board.lose(task, cause, "seen")
        assert board.runs.get(task.key) is None
        assert board.next() == task
    board.lose(task, cause, "seen")
    stored = board.runs.get(task.key)
    assert stored is not None
    assert stored.failure == Failure(cause, "seen")
    assert (stored.origin["configuration"], stored.origin["replicate"]) == task.place
    assert board.done[task.place] == stored
    following = board.next()
    assert following is not None
    assert following.place == (0, 1)


def test_a_lost_node_is_never_the_seed_runs_fault(preparing: Preparing) -> None:
    assert RETRIES["node-lost"] == math.inf
    board = preparing().board()
    first = board.next()
    for _ in range(20):
        assert first is not None
        board.lose(first, "node-lost", "seen")
        assert board.next() == first


def test_causes_are_counted_apart_and_for_each_seed_run_apart(
    preparing: Preparing, workers: "Workers"
) -> None:
    board = preparing().board()
    for cause in ("hang", "out-of-memory", "worker-lost"):
        first, second = workers.running(board, at_a_time=2)
        board.lose(first, cause, "seen")
        board.lose(second, cause, "seen")
    assert board.done == {}


def test_a_seed_run_that_was_not_begun_waits_as_before(preparing: Preparing) -> None:
    board = preparing().board()
    first = board.next()
    assert first is not None
    for _ in range(30):
        board.put_back(first)
        assert board.running == {}
        assert board.next() == first
    assert not board.losses


def test_a_run_that_another_study_stored_meanwhile_counts_and_not_the_loss(
    preparing: Preparing, workers: "Workers"
) -> None:
    board = preparing().board()
    task = board.next()
    assert task is not None
    board.lose(task, "hang", "seen")
    board.runs.put(workers.trained(task))
    board.lose(task, "hang", "seen")
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
    figure = board.validation(board.done[good.place])
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
