"""The scheduler hands out what is missing, in one order, and proposes from settled scores alone."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sclsearch.canonical import canonical
from sclsearch.search.proposals import ObservedConfiguration, propose
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.records import seed_run_key
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.spec import StudySpec

if TYPE_CHECKING:
    from tests.workspace import Workers

Preparing = Callable[..., PreparedStudy]
Asked = Callable[..., StudySpec]


def test_seed_runs_come_configuration_by_configuration_and_two_of_these_are_open(
    preparing: Preparing, workers: "Workers"
) -> None:
    prepared = preparing()
    scheduler = Scheduler(prepared)
    assert prepared.record.open_configurations == 2
    first = workers.running(scheduler)
    assert [task.id for task in first] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for task in first[2:]:
        workers.finish(scheduler, task)
    assert scheduler.next() is None
    workers.finish(scheduler, first[0])
    assert scheduler.next() is None
    workers.finish(scheduler, first[1])
    assert [task.id for task in workers.running(scheduler)] == [(2, 0), (2, 1), (3, 0), (3, 1)]


@pytest.mark.parametrize(
    ("concurrency", "seeds", "expected"), [(1, 2, 2), (2, 2, 2), (3, 2, 3), (8, 2, 5), (8, 5, 3)]
)
def test_enough_are_open_to_keep_every_worker_busy_while_seed_runs_end_in_order(
    preparing: Preparing, workers: "Workers", concurrency: int, seeds: int, expected: int
) -> None:
    prepared = preparing(concurrency=concurrency, seeds=seeds, configs=20)
    assert prepared.record.open_configurations == expected
    scheduler = Scheduler(prepared)
    for _ in range(2 * concurrency):
        tasks = workers.running(scheduler, concurrency)
        assert len(tasks) == concurrency
        workers.finish(scheduler, tasks[0])


def test_how_many_are_open_stays_as_the_study_was_created(preparing: Preparing) -> None:
    prepared = preparing(concurrency=8)
    prepared.store.create(prepared.record)
    assert preparing(concurrency=2).record.open_configurations == 5


def test_a_search_that_goes_on_with_more_workers_keeps_all_of_them_busy(
    preparing: Preparing, workers: "Workers"
) -> None:
    prepared = preparing(configs=40, concurrency=2)
    prepared = prepared.begin()
    scheduler = Scheduler(prepared)
    for _ in range(12):
        workers.finish(scheduler, workers.running(scheduler, 2)[0])
    resumed = Scheduler(preparing(configs=40, concurrency=16).begin())
    resumed.widen(16)
    assert resumed._required(7) == range(5)  # what was known before stays known
    for _ in range(20):
        tasks = workers.running(resumed, 16)
        assert len(tasks) == 16
        workers.finish(resumed, tasks[0])
    again = Scheduler(preparing(configs=40).begin())
    again.widen(2)
    again.refill()
    assert again._windows == resumed._windows == [(0, 2), (7, 9)]
    study = prepared.study
    for number, configuration in enumerate(resumed.state.configurations[1:], 1):
        told = again._required(number)
        before = [
            ObservedConfiguration(
                c.values, resumed.state.scores[c.number].score if c.number in told else None
            )
            for c in resumed.state.configurations[:number]
        ]
        proposal = propose(study.space, study.sampler, study.search_seed, before)
        assert proposal is not None
        assert proposal[0] == configuration.values


def test_every_proposal_follows_from_the_settled_scores_alone(
    preparing: Preparing, workers: "Workers"
) -> None:
    prepared = preparing(configs=16, concurrency=4)
    scheduler = Scheduler(prepared)
    workers.run_out(scheduler, at_a_time=4)
    assert scheduler.complete
    window = prepared.record.open_configurations
    study = prepared.study
    for number in range(16):
        known = [
            ObservedConfiguration(
                c.values,
                scheduler.state.scores[c.number].score if c.number <= number - window else None,
            )
            for c in scheduler.state.configurations[:number]
        ]
        again = propose(study.space, study.sampler, study.search_seed, known)
        assert again is not None
        assert again[0] == scheduler.state.configurations[number].values


def test_a_configuration_is_stored_before_its_first_seed_run_starts(preparing: Preparing) -> None:
    prepared = preparing()
    assert prepared.store.configurations() == []
    Scheduler(prepared).next()
    stored = prepared.store.configurations()
    assert [configuration.number for configuration in stored] == [0, 1]
    assert stored[0].origin == "published"
    assert stored[0].values == {"tau": 0.3, "lam": 0.9, "learning_rate": 1e-2}
    assert stored[0].fields["epochs"] == 8
    assert stored[1].origin == "sampled"


@pytest.mark.parametrize(
    "settings", [{}, {"batch_size": 100, "max_length": 1024}], ids=["as they are", "in chunks"]
)
def test_a_key_names_the_job_that_a_worker_makes_of_the_configurations_json(
    preparing: Preparing, workers: "Workers", asked: Asked, settings: dict[str, object]
) -> None:
    prepared = preparing(asked(settings=settings), configs=5)
    for task in workers.running(Scheduler(prepared)):
        number = task.replicate.number
        fields = json.loads(canonical(task.configuration.fields))
        seed_run_spec = prepared.study.seed_run_spec(fields, number, prepared.splits[number])
        assert task.key == seed_run_spec.key
        assert canonical(task.identity) == canonical(seed_run_spec.identity)
        assert task.key == seed_run_key(prepared.record, task.configuration, task.replicate)


def test_a_space_that_is_used_up_completes_the_study(
    preparing: Preparing, workers: "Workers", asked: Asked
) -> None:
    prepared = preparing(asked(settings={"learning_rate": 1e-3}), configs=None)
    assert prepared.configs == 6
    scheduler = Scheduler(replace(prepared, configs=10))
    workers.run_out(scheduler)
    assert len(scheduler.state.configurations) == 6
    assert scheduler.exhausted
    assert scheduler.complete


def test_the_rule_decides_what_seeds_are_worth(preparing: Preparing, workers: "Workers") -> None:
    schedulers = {rule: Scheduler(preparing(configs=2, rule=rule)) for rule in ("mean", "best")}
    workers.run_out(schedulers["mean"])
    assert workers.running(schedulers["best"]) == []
    figures = defaultdict(list)
    for (number, _), run in schedulers["mean"].state.seed_runs.items():
        figures[number].append(run.validated(schedulers["mean"].study.metric) or 0.0)
    for number in range(2):
        assert schedulers["mean"].state.scores[number].score == sum(figures[number]) / 2
        assert schedulers["best"].state.scores[number].score == max(figures[number])


def test_a_board_holds_no_predictions_and_the_store_all(
    preparing: Preparing, workers: "Workers"
) -> None:
    scheduler = Scheduler(preparing(configs=1, seeds=1))
    (task,) = workers.running(scheduler)
    run = replace(workers.trained(task), predictions={"test": [1.0] * 20})
    scheduler.runs.put(run)
    scheduler.finish(task, run)
    assert scheduler.state.seed_runs[task.id] == replace(run, predictions={})
    assert scheduler.runs.get(task.key) == run
