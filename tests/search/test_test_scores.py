"""Tests of test scores: they choose nothing, and may be those of the winner alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sclsearch.ray_backend.failures import WorkerFailure
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.run import run
from sclsearch.search.scheduler import Scheduler
from sclsearch.study.spec import RunOptions
from sclsearch.tasks.custom import CustomTask
from tests.studies import MakeSpec, Prepare, Workers, in_process

MINE: dict[str, Any] = {"configs": 3, "seeds": 3, "study": "mine"}


@pytest.fixture
def winner_only(prepare: Prepare) -> Scheduler:
    return prepare(**MINE, test_scores="winner").begin()


@pytest.fixture
def decided(winner_only: Scheduler, workers: Workers) -> Scheduler:
    """Return a search whose winner is decided and not tested yet."""
    scheduler = replace(winner_only)
    workers.decide(scheduler)
    return scheduler


def with_test(scheduler: Scheduler) -> set[tuple[int, int]]:
    return {run_id for run_id, run in scheduler.state.seed_runs.items() if run.test}


def of_winner(scheduler: Scheduler) -> set[tuple[int, int]]:
    winner = scheduler.state.winner
    assert winner is not None
    return {run_id for run_id in scheduler.state.seed_runs if run_id[0] == winner.number}


@pytest.mark.parametrize("race", ["off", "exact", 2.5])
@pytest.mark.parametrize("at_a_time", [1, 4])
def test_only_the_winners_seeds_are_tested_and_only_after_it_is_decided(
    prepare: Prepare, workers: Workers, at_a_time: int, race: float | str
) -> None:
    scheduler = prepare(configs=4, seeds=5, test_scores="winner", race=race)
    trained = 0
    while tasks := workers.running(scheduler, at_a_time):
        assert len({task.test for task in tasks}) == 1
        assert scheduler.decided or not tasks[0].test
        trained += not tasks[0].test
        workers.finish(scheduler, tasks[0])
    assert scheduler.complete
    assert with_test(scheduler) == of_winner(scheduler)
    assert trained == len(scheduler.state.seed_runs)
    assert scheduler.state.winner is not None
    assert scheduler.state.winner.test_mean is not None


def test_a_resumed_search_runs_the_missing_tests_and_later_ones_test_more_on_request(
    decided: Scheduler, prepare: Prepare, workers: Workers
) -> None:
    workers.finish(decided, workers.running(decided, 1)[0])
    again = prepare(**MINE, test_scores="winner")
    again.refill()
    assert (again.decided, again.complete, again.to_test) == (True, False, 2)
    assert len(workers.run_out(again)) == 2
    assert with_test(again) == of_winner(again)
    by_best = prepare(**MINE, test_scores="winner", rule="best")
    workers.run_out(by_best)
    assert with_test(by_best) == of_winner(again) | of_winner(by_best)
    every = prepare(**MINE, test_scores="all")
    assert len(workers.run_out(every)) == 9 - len(with_test(by_best))
    assert len(with_test(every)) == 9


def test_a_failing_repetition_comes_again_and_is_given_up(
    decided: Scheduler, winner_only: Scheduler, workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    task = decided.next()
    assert task is not None
    failure = WorkerFailure("hang", "the machine is gone", "")
    decided.record_failure(task, failure)
    while (again := decided.next()) is not None and again.id == task.id:
        decided.record_failure(again, failure)
    assert "cannot train again: the machine is gone" in caplog.text
    workers.run_out(decided)
    assert decided.complete
    assert decided.untested == [task.id]
    assert with_test(decided) == of_winner(decided) - {task.id}
    assert decided.runs.get(task.key) is not None
    assert replace(winner_only).next() is not None


@pytest.mark.parametrize(("tests_all", "repeated"), [(True, 1), (False, 3)])
def test_the_winners_best_seed_trains_once_more_for_its_weights(
    winner_only: Scheduler, prepare: Prepare, workers: Workers, tests_all: bool, repeated: int
) -> None:
    scheduler = replace(winner_only, tests_all=tests_all, weights=True)
    assert scheduler.repeated == repeated
    workers.decide(scheduler)
    tasks = []
    while running := workers.running(scheduler, 1):
        tasks += running
        workers.finish(scheduler, running[0])
    assert [task.id for task in tasks if task.weights] == [scheduler.state.best_seed]
    assert len(tasks) == repeated
    assert scheduler.complete  # although nothing stored the weights
    again = replace(winner_only, tests_all=tests_all, weights=True)
    (task,) = workers.running(again, 1)
    assert task.weights
    again.store.weights(task.key).save_file(Path.touch)
    workers.finish(again, task)
    assert replace(winner_only, tests_all=tests_all, weights=True).next() is None
    only = replace(prepare(configs=1, seeds=1), weights=True)
    assert (only.repeated, [task.weights for task in workers.running(only)]) == (0, [True])


def test_auto_tests_only_the_winner_if_tests_are_many_and_expensive(
    make_spec: MakeSpec, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, free = (make_spec(method=name, space=None) for name in ("ce", "supcl-seq"))
    monkeypatch.setattr("sclsearch.search.prepare.CHEAP_TEST", 0.0)
    assert prepare(spec).tests_all
    monkeypatch.setattr("sclsearch.search.prepare.FEW_TEST_ROWS", 1)
    assert not prepare(spec).tests_all
    assert prepare(free).tests_all
    assert prepare(spec, configs=1).tests_all
    assert prepare(spec, test_scores="all").tests_all
    monkeypatch.setattr("sclsearch.search.prepare.CHEAP_TEST", 1.0)
    assert prepare(spec).tests_all


def test_only_validation_rows_choose_configurations_seeds_and_checkpoints(
    make_spec: MakeSpec, toy: CustomTask, tmp_path: Path
) -> None:
    lines = Path(str(toy.path)).read_text(encoding="utf-8").splitlines()
    swapped = {"n,test": "y,test", "y,test": "n,test"}
    flipped = [line[:-6] + swapped.get(line[-6:], line[-6:]) for line in lines]
    (tmp_path / "flipped.csv").write_text("\n".join(flipped) + "\n", encoding="utf-8")
    found, tests = [], []
    for name, path in (("usual", toy.path), ("other", tmp_path / "flipped.csv")):
        options = RunOptions(
            **{**MINE, "configs": 2, "seeds": 2}, rule="best", race="off", storage=tmp_path / name
        )
        options = replace(options, gpus_per_trial=0, tracking="none")
        with in_process():
            state = run(make_spec(task=replace(toy, path=path)), options, Console(quiet=True)).state
        winner = finished_winner(report(tmp_path / name, "mine"))
        runs = [run for _, run in sorted(state.seed_runs.items())]
        checkpoints = [(run.kept, run.validation) for run in runs]
        found.append((winner.values, winner.reported, checkpoints))
        tests.append([run.test["confusion"] for run in runs])
    assert found[0] == found[1]
    assert tests[0] != tests[1]
