"""Tests of test scores: of all seed runs during training, or only of the winner's at the end."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.failures import WorkerFailure
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.search.prepare import CHEAP_TEST
from sclsearch.search.scheduler import Scheduler
from sclsearch.training.spec import seed_run_costs
from tests.workspace import MakeSpec, Prepare, Workers


@pytest.fixture
def winner_only(prepare: Prepare) -> Scheduler:
    return prepare(configs=3, seeds=3, test_scores="winner", study="mine").begin()


def with_test(scheduler: Scheduler) -> set[tuple[int, int]]:
    return {run_id for run_id, run in scheduler.state.seed_runs.items() if run.test}


def winner_seeds(scheduler: Scheduler) -> set[tuple[int, int]]:
    assert scheduler.state.winner is not None
    return {
        run_id for run_id in scheduler.state.seed_runs if run_id[0] == scheduler.state.winner.number
    }


@pytest.mark.parametrize("race", ["off", "exact", 2.5])
@pytest.mark.parametrize("at_a_time", [1, 4])
def test_only_the_winners_seeds_are_tested_and_only_after_it_is_decided(
    prepare: Prepare, workers: Workers, at_a_time: int, race: float | str
) -> None:
    prepared = prepare(configs=4, seeds=5, test_scores="winner", race=race)
    scheduler = replace(prepared)
    trained = 0
    while tasks := workers.running(scheduler, at_a_time):
        assert len({task.test for task in tasks}) == 1
        assert scheduler.decided or not tasks[0].test
        trained += not tasks[0].test
        workers.finish(scheduler, tasks[0])
    assert scheduler.complete
    assert with_test(scheduler) == winner_seeds(scheduler)
    assert trained == len(scheduler.state.seed_runs)
    winner = scheduler.state.winner
    assert winner is not None
    assert winner.test_mean is not None


def test_all_seed_runs_are_tested_as_they_train(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare(configs=3, seeds=3, test_scores="all")
    assert all(task.test for task in workers.running(scheduler))
    workers.run_out(scheduler)
    assert scheduler.state.tested_later == []
    assert len(with_test(scheduler)) == 9


def test_a_resumed_search_runs_the_missing_tests(winner_only: Scheduler, workers: Workers) -> None:
    scheduler = replace(winner_only)
    workers.decide(scheduler)
    workers.finish(scheduler, workers.running(scheduler, 1)[0])
    again = replace(winner_only)
    again.refill()
    assert again.decided
    assert not again.complete
    assert len(again.untested) == 2
    assert len(workers.run_out(again)) == 2
    assert with_test(again) == winner_seeds(again)


def test_a_later_start_tests_all_seed_runs_on_request(
    winner_only: Scheduler, prepare: Prepare, workers: Workers
) -> None:
    workers.run_out(replace(winner_only))
    scheduler = prepare(configs=3, seeds=3, test_scores="all", study="mine")
    assert len(workers.run_out(scheduler)) == 6
    assert len(with_test(scheduler)) == 9


def test_another_rule_tests_its_own_winner(
    winner_only: Scheduler, prepare: Prepare, workers: Workers
) -> None:
    first = replace(winner_only)
    workers.run_out(first)
    changed = {"configs": 3, "seeds": 3, "test_scores": "winner", "study": "mine"}
    scheduler = prepare(rule="best", **changed)
    workers.run_out(scheduler)
    assert with_test(scheduler) == winner_seeds(first) | winner_seeds(scheduler)


def test_a_repetition_that_did_not_start_comes_again_and_a_failing_one_is_given_up(
    winner_only: Scheduler, workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = replace(winner_only)
    workers.decide(scheduler)
    task = scheduler.next()
    assert task is not None
    scheduler.release(task)
    failure = WorkerFailure("hang", "the machine is gone", "")
    while (again := scheduler.next()) is not None and again.id == task.id:
        scheduler.record_failure(again, failure)
    assert "cannot train again: the machine is gone" in caplog.text
    workers.run_out(scheduler)
    assert scheduler.complete
    assert scheduler.untested == [task.id]
    assert with_test(scheduler) == winner_seeds(scheduler) - {task.id}
    assert scheduler.runs.get(task.key) is not None
    assert replace(winner_only).next() is not None


@pytest.mark.parametrize("tests_all", [True, False])
def test_the_winners_best_seed_trains_once_more_for_its_weights(
    winner_only: Scheduler, workers: Workers, *, tests_all: bool
) -> None:
    scheduler = replace(winner_only, tests_all=tests_all, weights=True)
    assert scheduler.repeated == (1 if tests_all else 3)
    workers.decide(scheduler)
    best = scheduler.state.best_seed
    assert best is not None
    repeated = {}
    while tasks := workers.running(scheduler, 1):
        repeated[tasks[0].id] = tasks[0]
        if tasks[0].weights:
            scheduler.store.weights(tasks[0].key).save_file(Path.touch)
        workers.finish(scheduler, tasks[0])
    assert {one for one, task in repeated.items() if task.weights} == {best}
    assert len(repeated) == (1 if tests_all else 3)
    assert scheduler.complete
    assert replace(winner_only, tests_all=tests_all, weights=True).next() is None


def test_weights_that_cannot_be_stored_are_tried_once(
    winner_only: Scheduler, workers: Workers
) -> None:
    scheduler = replace(winner_only, tests_all=True, weights=True)
    workers.run_out(scheduler)
    assert scheduler.complete
    again = replace(winner_only, tests_all=True, weights=True)
    assert [task.weights for task in workers.running(again, 1)] == [True]


def test_the_only_seed_run_of_a_study_stores_its_weights_at_once(prepare: Prepare) -> None:
    only = replace(prepare(configs=1, seeds=1), weights=True)
    task = replace(only).next()
    assert task is not None
    assert task.weights
    assert replace(only).repeated == 0


def report_of(prepared: Scheduler) -> Report:
    return report(prepared.storage, "mine")


def test_reports_show_which_seeds_have_no_test_score(
    winner_only: Scheduler, workers: Workers
) -> None:
    scheduler = replace(winner_only)
    workers.decide(scheduler)
    before = report_of(winner_only)
    winner = finished_winner(before)
    assert (winner.test_mean, winner.plain, winner.untested) == (None, None, 3)
    assert any(
        re.search(r"3 of 3 seeds of the winner #\d have no test score\. Repeat .*--rule", note)
        for note in before.notes
    )
    with pytest.raises(SclsearchError, match=r"^mine: 3 of 3 seeds of the winner"):
        compare_studies([before, replace(before, study="other")])
    workers.run_out(scheduler)
    after = report_of(winner_only)
    assert finished_winner(after).plain is not None
    assert {line.untested for line in after.configurations} == {0, 3}
    assert any("only the winner was tested" in note for note in after.notes)
    compared = compare_studies([after, replace(after, study="other")])
    assert compared.studies[1].search_interval is None
    assert [after.study in note for note in compared.notes if "--test-scores all" in note] == [
        True,
        False,
    ]


@pytest.mark.parametrize(("method", "free"), [("ce", False), ("supcl-seq", True)])
def test_auto_tests_only_the_winner_if_tests_are_many_and_expensive(
    make_spec: MakeSpec,
    prepare: Prepare,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    *,
    free: bool,
) -> None:
    spec = make_spec(method=method, space=None, settings={"epochs": 1})
    prepared = prepare(spec)
    assert prepared.tests_all
    training, test = seed_run_costs(prepared.study.seed_run_spec({}, 0, prepared.splits[0]))
    assert (test == 0) == free
    monkeypatch.setattr("sclsearch.search.prepare.FEW_TEST_ROWS", 1)
    assert prepare(spec).tests_all == (free or test <= CHEAP_TEST * (training + test))
    monkeypatch.setattr("sclsearch.search.prepare.CHEAP_TEST", 0.0)
    assert prepare(spec).tests_all == free
    assert prepare(spec, configs=1).tests_all
    assert prepare(spec, test_scores="all").tests_all
