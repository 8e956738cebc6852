"""Weights stay on disk for the seeds that a report is made of, and for no others."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sclsearch.search.board import Board
from sclsearch.search.keeping import Keeper, delete_superfluous_weights
from sclsearch.search.listener import SeedTask
from sclsearch.search.prepare import Prepared
from sclsearch.store.runs import Failure, SeedRun

Preparing = Callable[..., Prepared]
RIGHT = {0: (12, 15, 14, 15), 1: (19, 1, 18, 17), 2: (16, None, 11, 10)}
"""Validation rows of 20 that each seed of a configuration gets right, None where it failed."""


def finish(board: Board, task: SeedTask, right: int | None) -> None:
    counts = {"confusion": [[right, 20 - right], [0, 0]]} if right is not None else {}
    board.finish(
        task,
        SeedRun(
            key=task.key,
            identity=task.identity,
            origin={},
            evaluations=({"validation": counts},),
            test=counts,
            failure=Failure("raised", "a test") if right is None else None,
        ),
    )


def train(board: Board, until: int) -> list[SeedTask]:
    """Takes seed runs, each with weights, and finishes the first ones; returns all."""
    tasks = []
    while task := board.next():
        tasks.append(task)
        board.store.keep_weights(task.key, Path.touch)
        if len(tasks) <= until:
            finish(board, task, RIGHT[task.place[0]][task.place[1]])
    return tasks


def kept(board: Board, tasks: list[SeedTask]) -> set[tuple[int, int]]:
    return {task.place for task in tasks if task.key in board.store.kept_weights()}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("mean", {(0, 1)}),
        ("best", {(1, 0)}),
        ("top-2", {(1, 0), (1, 2)}),
        ("top-2/best", {(1, 0)}),
        ("best/top-3", {(1, 0), (1, 2), (1, 3)}),
        ("best/mean", {(1, 0)}),
        ("mean/top-2", {(0, 1), (0, 3)}),
    ],
)
def test_of_a_complete_study_the_reported_seeds_of_the_winner_are_kept(
    preparing: Preparing, rule: str, expected: set[tuple[int, int]]
) -> None:
    board = preparing(rule=rule, seeds=4, configs=3).board()
    tasks = train(board, until=12)
    delete_superfluous_weights(board)
    assert kept(board, tasks) == expected


def test_what_the_first_starts_rule_reports_is_kept_under_another(preparing: Preparing) -> None:
    first = preparing(rule="mean", seeds=4, configs=3)
    first.store.create(first.record)
    board = preparing(rule="best", seeds=4, configs=3).board()
    tasks = train(board, until=12)
    delete_superfluous_weights(board)
    assert kept(board, tasks) == {(0, 1), (1, 0)}


def test_while_a_study_runs_what_may_still_be_reported_is_kept_too(preparing: Preparing) -> None:
    board = preparing(seeds=4, configs=3).board()
    leading, unfinished = {(0, 1)}, {(1, 0)}
    training = {(1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)}
    tasks = train(board, until=6)
    delete_superfluous_weights(board)
    assert kept(board, tasks) == leading | unfinished | training


def test_weights_are_deleted_whenever_a_configuration_gets_its_score(preparing: Preparing) -> None:
    board = preparing(seeds=4, configs=3).board()
    board.listeners = [Keeper(board)]
    assert kept(board, train(board, until=12)) == {(0, 1)}


def test_weights_that_may_not_be_deleted_stop_no_search(
    preparing: Preparing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    board = preparing(seeds=4, configs=3).board()
    tasks = train(board, until=12)
    drop, fixed = board.store.drop_weights, tasks[3].key

    def refuse(key: str) -> None:
        if key == fixed:
            raise PermissionError(key)
        drop(key)

    monkeypatch.setattr(board.store, "drop_weights", refuse)
    delete_superfluous_weights(board)
    assert kept(board, tasks) == {(0, 1), tasks[3].place}
    assert fixed in caplog.text


def test_of_what_waits_at_the_end_of_a_race_no_weights_are_kept(preparing: Preparing) -> None:
    board = preparing(seeds=5, configs=3).board(race=0.0)
    tasks = []
    while task := board.next():
        tasks.append(task)
        board.store.keep_weights(task.key, Path.touch)
        finish(board, task, 0 if task.place[0] else 20)
        delete_superfluous_weights(board)
    assert board.complete
    delete_superfluous_weights(board)
    assert {*board.race.waiting} == {1, 2}
    assert kept(board, tasks) == {(0, 0)}


@pytest.mark.parametrize("part", [{"configs": 2}, {"seeds": 2}], ids=str)
def test_a_look_at_a_part_of_a_study_deletes_nothing(
    preparing: Preparing, part: dict[str, int]
) -> None:
    whole = preparing(seeds=4, configs=3)
    for replicate in whole.replicates:
        whole.store.add(replicate)
    board = whole.board()
    tasks = train(board, until=12)
    smaller = preparing(**{"seeds": 4, "configs": 3, **part}).board()
    delete_superfluous_weights(smaller)
    assert kept(board, tasks) == {task.place for task in tasks}


def test_weights_that_a_killed_worker_half_wrote_are_deleted(preparing: Preparing) -> None:
    store = preparing().store
    assert isinstance(store.folder, Path)

    def killed(part: Path) -> None:
        part.touch()
        os.link(part, part.with_name(".left.safetensors.0.part"))

    store.keep_weights("whole", killed)
    store.drop_half_weights()
    assert [path.name for path in (store.folder / "weights").iterdir()] == ["whole.safetensors"]
