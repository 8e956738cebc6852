"""Tests of the weight pruner: only weights that a report needs stay on disk."""

import math
from pathlib import Path

import pytest

from sclsearch.ray_backend.tuner import SeedSearcher
from sclsearch.search.scheduler import Scheduler
from sclsearch.search.weight_pruner import WeightPruner, delete_unneeded_weights
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.store.storage import StoragePath
from sclsearch.study.seed_runs import SeedRunTask
from tests.workspace import Prepare

RIGHT = {0: (12, 15, 14, 15), 1: (19, 1, 18, 17), 2: (16, None, 11, 10)}
"""Correct validation rows, of 20, of each seed of a configuration; None if it failed."""


def finish(scheduler: Scheduler, task: SeedRunTask, right: int | None) -> None:
    counts = {"confusion": [[right, 20 - right], [0, 0]]} if right is not None else {}
    scheduler.finish(
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


def train(scheduler: Scheduler, until: int) -> list[SeedRunTask]:
    """Save weights for all seed runs, finish the first ones, and return all."""
    tasks = []
    while task := scheduler.next():
        tasks.append(task)
        scheduler.store.weights(task.key).save_file(Path.touch)
        if len(tasks) <= until:
            finish(scheduler, task, RIGHT[task.id[0]][task.id[1]])
    return tasks


def kept(scheduler: Scheduler, tasks: list[SeedRunTask]) -> set[tuple[int, int]]:
    return {task.id for task in tasks if task.key in scheduler.store.kept_weights()}


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
def test_a_complete_study_keeps_the_weights_of_the_winners_reported_seeds(
    prepare: Prepare, rule: str, expected: set[tuple[int, int]]
) -> None:
    scheduler = Scheduler(prepare(rule=rule, seeds=4, configs=3))
    tasks = train(scheduler, until=12)
    delete_unneeded_weights(scheduler)
    assert kept(scheduler, tasks) == expected


def test_weights_for_the_rule_of_the_first_run_are_kept_under_another_rule(
    prepare: Prepare,
) -> None:
    first = prepare(rule="mean", seeds=4, configs=3)
    first.store.create(first.record)
    scheduler = Scheduler(prepare(rule="best", seeds=4, configs=3))
    tasks = train(scheduler, until=12)
    delete_unneeded_weights(scheduler)
    assert kept(scheduler, tasks) == {(0, 1), (1, 0)}


def test_weights_that_a_report_may_still_need_are_kept_during_a_search(
    prepare: Prepare,
) -> None:
    scheduler = Scheduler(prepare(seeds=4, configs=3))
    leading, unfinished = {(0, 1)}, {(1, 0)}
    training = {(1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)}
    tasks = train(scheduler, until=6)
    delete_unneeded_weights(scheduler)
    assert kept(scheduler, tasks) == leading | unfinished | training


def test_weights_are_deleted_whenever_a_configuration_gets_its_score(prepare: Prepare) -> None:
    scheduler = Scheduler(prepare(seeds=4, configs=3))
    scheduler.callbacks = [WeightPruner(scheduler)]
    assert kept(scheduler, train(scheduler, until=12)) == {(0, 1)}


def test_weights_that_cannot_be_deleted_give_a_warning(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(prepare(seeds=4, configs=3))
    tasks = train(scheduler, until=12)
    weights, fixed = scheduler.store.weights, tasks[3].key

    def refuse(key: str) -> StoragePath:
        if key == fixed:
            raise PermissionError(key)
        return weights(key)

    monkeypatch.setattr(scheduler.store, "weights", refuse)
    delete_unneeded_weights(scheduler)
    assert kept(scheduler, tasks) == {(0, 1), tasks[3].id}
    assert fixed in caplog.text


def test_paused_configurations_keep_no_weights_at_the_end_of_a_race(prepare: Prepare) -> None:
    scheduler = Scheduler(prepare(seeds=5, configs=6, race=2.5))
    tasks = []
    while task := scheduler.next():
        tasks.append(task)
        scheduler.store.weights(task.key).save_file(Path.touch)
        finish(scheduler, task, 0 if task.id[0] else 20)
        delete_unneeded_weights(scheduler)
    assert scheduler.complete
    delete_unneeded_weights(scheduler)
    assert {*scheduler.state.paused} == {3, 4, 5}
    assert kept(scheduler, tasks) == {(0, 0)}


@pytest.mark.parametrize("part", [{"configs": 2}, {"seeds": 2}], ids=str)
def test_a_search_of_a_part_of_a_study_deletes_no_weights(
    prepare: Prepare, part: dict[str, int]
) -> None:
    whole = prepare(seeds=4, configs=3)
    for replicate in whole.replicates:
        whole.store.add(replicate)
    scheduler = Scheduler(whole)
    tasks = train(scheduler, until=12)
    smaller = Scheduler(prepare(**{"seeds": 4, "configs": 3, **part}))
    delete_unneeded_weights(smaller)
    assert kept(scheduler, tasks) == {task.id for task in tasks}


@pytest.mark.parametrize(
    ("rule", "test", "right", "expected"),
    [
        ("mean", "all", RIGHT[0], [None, 12, 15, 15]),
        ("mean", "all", (None, 16, None, 11), [None, None, 16, 16]),
        ("top-2", "all", RIGHT[0], [None, None, 12, 14]),
        ("top-2", "all", (16, None, 11, 10), [None, None, None, 11]),
        ("mean/top-3", "all", RIGHT[0], [None, None, None, 12]),
        ("mean", "winner", RIGHT[0], [None, None, None, None]),
    ],
)
def test_a_trial_gets_the_lowest_score_that_a_report_can_need(
    prepare: Prepare,
    rule: str,
    test: str,
    right: tuple[int | None, ...],
    expected: list[int | None],
) -> None:
    scheduler = Scheduler(prepare(rule=rule, seeds=4, configs=2, test_scores=test))
    searcher = SeedSearcher(scheduler, math.inf)
    least = []
    for seed in range(4):
        config = searcher.suggest("trial")
        assert isinstance(config, dict)
        least.append(config["weights_from"])
        (task,) = scheduler.training.values()
        finish(scheduler, task, right[seed])
    assert least == [-math.inf if one is None else one / 20 for one in expected]
