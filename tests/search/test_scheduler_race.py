"""Tests of the scheduler with a race."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.reports.report import finished_winner, report
from sclsearch.search.plan import estimate, plan_prepared
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure
from tests.studies import Confusion
from tests.workspace import MakeSpec, Prepare, Workers

ROWS = 1000
CONFIGS, SEEDS, BAND = 8, 10, 2.5
# The first configuration, the published one, is good; the fourth is better.
MEANS = (0.80, 0.60, 0.55, 0.84, 0.70, 0.62, 0.50, 0.66)

Raced = tuple[Scheduler, list[tuple[int, int]]]


@pytest.fixture
def workers() -> Workers:
    """Return fake workers whose scores are near the means of the configurations."""

    def counts(number: int, seed: int) -> Confusion:
        right = round(ROWS * (MEANS[number] + random.Random(100 * number + seed).gauss(0, 0.01)))
        return [[right, ROWS - right], [0, 0]]

    return Workers(counts)


def prepared(prepare: Prepare, race: float | str = BAND, **changes: object) -> Scheduler:
    return prepare(configs=CONFIGS, seeds=SEEDS, race=race, **changes)


@pytest.fixture
def raced(prepare: Prepare, workers: Workers) -> Raced:
    """Return a scheduler after a race that stopped once, and the ids of trained seed runs."""
    ids = workers.run_out(prepared(prepare).begin(), most=37)
    found = report(prepared(prepare).storage, prepared(prepare).name)
    assert not found.finished
    scheduler = prepared(prepare)
    return scheduler, ids + workers.run_out(scheduler)


def test_a_race_skips_seeds_and_finds_the_winner_of_the_full_search(
    prepare: Prepare, raced: Raced, tmp_path: Path
) -> None:
    scheduler, ids = raced
    assert scheduler.complete
    assert len(ids) == len({*ids}) == len(scheduler.state.seed_runs)
    assert scheduler.skipped == CONFIGS * SEEDS - len(ids) > CONFIGS * SEEDS / 4
    found = report(scheduler.storage, scheduler.name)
    assert finished_winner(found).number == 3
    assert (found.race, found.finished) == (BAND, True)
    lacking = {line.number for line in found.configurations if line.score is None}
    assert lacking == scheduler.state.paused
    assert found.notes[0].startswith(f"{len(lacking)} of 8 configurations have fewer than 10 seeds")
    again = replace(prepared(prepare), dry=True)
    again.refill()
    assert (again.skipped, again.remaining) == (scheduler.skipped, 0)
    assert estimate(again, list).seconds == 0.0
    plan = plan_prepared(prepared(prepare, study="new", storage=tmp_path / "new", tracking="none"))
    assert (plan["race"], plan["stages"]) == (BAND, (2, 4, 8))
    assert (plan["seed_runs"], plan["missing"]) == (CONFIGS * SEEDS, 8 * 2 + 3 * 8)


def test_a_resumed_race_proposes_the_same_configurations(
    prepare: Prepare, workers: Workers, raced: Raced, tmp_path: Path
) -> None:
    whole = prepared(prepare, study="whole", storage=tmp_path / "whole")
    workers.run_out(whole.begin())
    stored = [one.values for one in raced[0].store.configurations()]
    assert [one.values for one in whole.store.configurations()] == stored
    assert len(stored) == CONFIGS


def test_failed_seed_runs_that_a_race_leaves_out_are_counted_and_stay_stored(
    prepare: Prepare, raced: Raced, workers: Workers
) -> None:
    first, (*_, last) = raced
    left_out, *_ = first.queue.values()
    first.runs.put(workers.failed(left_out))
    needed = first.state.seed_runs[last]
    (first.runs.folder / f"{needed.key}.json").remove()
    first.runs.put(replace(needed, evaluations=(), failure=Failure("raised", "a test")))
    again = prepared(prepare, retry_failed=True)
    assert workers.run_out(again) == [last]
    assert (again.skipped, again.skipped_failures) == (first.skipped, 1)
    assert [run.key for run in first.runs.all() if run.failure] == [left_out.key]
    whole = prepared(prepare, "off", retry_failed=True)
    assert left_out.id in workers.run_out(whole)
    assert whole.skipped_failures == 0
    assert not any(run.failure for run in first.runs.all())


def test_a_random_search_opens_a_configuration_when_it_can_run(
    make_spec: MakeSpec, prepare: Prepare, workers: Workers
) -> None:
    spec = make_spec(sampler="random")
    scheduler = prepare(spec, configs=50, seeds=SEEDS, race=BAND).begin()
    workers.running(scheduler, 3)
    assert len(scheduler.store.configurations()) == 2
    order = workers.run_out(prepared(prepare, spec=spec, study="eight").begin())
    assert order[: 2 * CONFIGS] == [(n, seed) for n in range(CONFIGS) for seed in (0, 1)]


def test_a_search_races_by_default_from_6_configurations_of_5_seeds_on(prepare: Prepare) -> None:
    for configs, seeds, race, rule, band in (
        (6, 5, None, "mean", 2.5),
        (6, 5, None, "top-3", 3.5),
        (6, 5, None, "best", None),
        (5, 5, None, "mean", None),
        (6, 4, None, "mean", None),
        (20, 10, "off", "mean", None),
        (2, 3, "exact", "mean", "exact"),
    ):
        assert prepare(configs=configs, seeds=seeds, race=race, rule=rule).band == band
    assert prepare(configs=2, seeds=SEEDS, race=BAND).remaining == 2 * SEEDS


def test_half_of_a_time_budget_ends_the_opening_of_configurations(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare(configs=100, seeds=SEEDS, race=BAND).begin()
    workers.run_out(scheduler, most=12)
    scheduler.stop_opening()
    workers.run_out(scheduler)
    assert scheduler.complete
    assert scheduler.state.winner is not None
    assert len(scheduler.state.configurations) < CONFIGS
