"""Tests of the scheduler with a race."""

import random
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.callbacks import Progress
from sclsearch.search.plan import estimate, plan_prepared
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.study.spec import RunOptions
from sclsearch.study.state import SeedRunTask
from tests.workspace import MakeSpec, Prepare, Workers

ROWS = 1000
CONFIGS, SEEDS, BAND = 8, 10, 2.5
# The first configuration, the published one, is good; the fourth is better.
MEANS = (0.80, 0.60, 0.55, 0.84, 0.70, 0.62, 0.50, 0.66)


def trained(workers: Workers, task: SeedRunTask) -> SeedRun:
    """Return a finished seed run whose score is near its configuration's mean."""
    number, seed = task.id
    right = round(ROWS * (MEANS[number] + random.Random(100 * number + seed).gauss(0, 0.01)))
    counts = {"confusion": [[right, ROWS - right], [0, 0]]}
    evaluation = {"epoch": 1.0, "update": 4, "loss": {}, "validation": counts}
    return replace(workers.trained(task), evaluations=(evaluation,), test=counts)


def run_out(
    workers: Workers, scheduler: Scheduler, at_a_time: int = 2, most: int = 1_000
) -> list[tuple[int, int]]:
    """Finish at most so many seed runs of the scheduler; return their ids."""
    ids: list[tuple[int, int]] = []
    while len(ids) < most and (tasks := workers.running(scheduler, at_a_time)):
        scheduler.runs.put(run := trained(workers, tasks[0]))
        scheduler.finish(tasks[0], run)
        ids.append(tasks[0].id)
    return ids


def prepared(prepare: Prepare, race: float | str = BAND, **changes: object) -> Scheduler:
    return prepare(configs=CONFIGS, seeds=SEEDS, race=race, **changes)


Raced = tuple[Scheduler, Scheduler, list[tuple[int, int]]]


@pytest.fixture
def raced(prepare: Prepare, workers: Workers) -> Raced:
    """Return a stored study, its scheduler after a race, and the ids of trained seed runs."""
    study = prepared(prepare)
    study.begin()
    scheduler = replace(study)
    return study, scheduler, run_out(workers, scheduler)


def test_a_race_skips_seeds_and_finds_the_winner_of_the_full_search(raced: Raced) -> None:
    study, scheduler, ids = raced
    assert scheduler.complete
    assert len(ids) == len({*ids}) == len(scheduler.state.seed_runs)
    assert scheduler.skipped == CONFIGS * SEEDS - len(ids) > CONFIGS * SEEDS / 4
    found = report(study.storage, study.store.name)
    assert finished_winner(found).number == 3
    assert (found.race, found.finished) == (BAND, True)
    lacking = {line.number for line in found.configurations if line.score is None}
    assert lacking == scheduler.state.paused
    assert found.notes[0].startswith(f"{len(lacking)} of 8 configurations have fewer than 10 seeds")


def test_a_stopped_race_is_reported_as_unfinished(prepare: Prepare, workers: Workers) -> None:
    study = prepared(prepare)
    study.begin()
    run_out(workers, replace(study), most=37)
    found = report(study.storage, study.store.name)
    assert not found.finished
    assert "the search is unfinished" in found.notes[0]


def test_skipped_seed_runs_are_counted_and_take_no_time(prepare: Prepare, raced: Raced) -> None:
    _, first, _ = raced
    scheduler = replace(prepared(prepare), dry=True)
    scheduler.refill()
    assert scheduler.skipped == first.skipped > 0
    assert scheduler.remaining == 0
    assert estimate(scheduler, list).seconds == 0.0
    progress = Progress(Console(file=StringIO()), CONFIGS * SEEDS)
    progress.done = len(first.state.seed_runs)
    progress.skipped = CONFIGS * SEEDS - progress.done - scheduler.remaining
    progress.finished_seconds, progress.running_seconds = [60.0], [0.0]
    assert progress.left() == 0.0


def test_failed_seed_runs_that_a_race_leaves_out_are_counted(
    prepare: Prepare, raced: Raced, workers: Workers
) -> None:
    _, first, _ = raced
    left_out, *_ = first.queue.values()
    first.runs.put(workers.failed(left_out))
    again = prepared(prepare, retry_failed=True)
    assert run_out(workers, again) == []
    assert (again.skipped, again.skipped_failures) == (first.skipped, 1)
    whole = prepared(prepare, "off", retry_failed=True)
    assert left_out.id in run_out(workers, whole)
    assert whole.skipped_failures == 0


def test_a_race_skips_the_remaining_seeds_of_a_diverged_configuration(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = replace(prepared(prepare))
    failure = Failure("non-finite", "loss ce is nan at update 7")
    while tasks := workers.running(scheduler, 2):
        run = trained(workers, tasks[0])
        if tasks[0].id[0] == 1:
            run = replace(run, evaluations=(), test={}, failure=failure)
        scheduler.runs.put(run)
        scheduler.finish(tasks[0], run)
    assert sum(number == 1 for number, _ in scheduler.state.seed_runs) == 2
    assert scheduler.complete


def test_a_failed_seed_run_of_a_paused_configuration_stays_stored(
    prepare: Prepare, workers: Workers
) -> None:
    study = prepared(prepare, "off")
    scheduler = replace(study)
    while tasks := workers.running(scheduler, 2):
        run = trained(workers, tasks[0])
        if tasks[0].id == (1, 5):
            run = replace(run, evaluations=(), test={}, failure=Failure("worker-lost", "gone"))
        scheduler.runs.put(run)
        scheduler.finish(tasks[0], run)
    again = prepared(prepare, retry_failed=True)
    assert run_out(workers, again) == []
    assert again.complete
    (failed,) = (run for run in study.runs.all() if run.failure)
    assert failed.origin["replicate"] == 5
    assert run_out(workers, prepared(prepare, "off", retry_failed=True)) == [(1, 5)]
    assert not any(run.failure for run in study.runs.all())


def test_a_race_opens_more_configurations_for_many_workers(prepare: Prepare) -> None:
    assert prepared(prepare, concurrency=64).record.open_configurations == 33
    assert prepared(prepare, "off", concurrency=64).record.open_configurations == 8


def test_samplers_that_ignore_scores_open_all_configurations_at_once(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    spec = make_spec(sampler="random")
    scheduler = prepare(spec, configs=CONFIGS, seeds=SEEDS, race=BAND)
    started = [scheduler.next() for _ in range(2 * CONFIGS + 1)]
    assert {task.id[1] for task in started[:-1] if task} == {0, 1}
    assert started[-1] is None
    assert len(scheduler.state.configurations) == CONFIGS


@pytest.mark.parametrize(
    ("configs", "seeds", "race", "rule", "band"),
    [
        (6, 5, None, "mean", 2.5),
        (6, 5, None, "top-3", 3.5),
        (6, 5, None, "best", None),
        (5, 5, None, "mean", None),
        (6, 4, None, "mean", None),
        (20, 10, "off", "mean", None),
        (2, 3, 1.5, "mean", 1.5),
        (2, 3, "exact", "mean", "exact"),
    ],
)
def test_a_search_races_by_default_from_6_configurations_of_5_seeds_on(
    make_spec: MakeSpec,
    prepare: Prepare,
    configs: int,
    seeds: int,
    race: float | str | None,
    rule: str,
    band: float | str | None,
) -> None:
    for sampler in ("tpe", "random"):
        spec = make_spec(sampler=sampler)
        study = prepare(spec, configs=configs, seeds=seeds, race=race, rule=rule)
        assert study.band == band


def test_a_race_that_no_stage_fits_is_refused(prepare: Prepare) -> None:
    with pytest.raises(SclsearchError, match=r"^--race: needs more seeds .* got 2\."):
        prepare(seeds=2, race=BAND)
    for race in (0.0, -1.0):
        with pytest.raises(SclsearchError, match="race"):
            RunOptions(race=race)


def test_a_resumed_race_proposes_the_same_configurations(
    make_spec: MakeSpec, prepare: Prepare, workers: Workers
) -> None:
    spec, values = make_spec(sampler="tpe"), []
    for folder, stop in (("whole", 1_000), ("stopped", 25)):
        options = {"configs": CONFIGS, "seeds": SEEDS, "race": BAND, "study": folder}
        study = prepare(spec, **options).begin()
        run_out(workers, replace(study), most=stop)
        scheduler = replace(study)
        run_out(workers, scheduler)
        values.append([one.values for one in scheduler.state.configurations])
    assert len(values[0]) == CONFIGS
    assert values[0] == values[1]


def test_half_of_a_time_budget_ends_the_opening_of_configurations(
    make_spec: MakeSpec, prepare: Prepare, workers: Workers
) -> None:
    study = prepare(make_spec(sampler="tpe"), configs=100, seeds=SEEDS, race=BAND).begin()
    scheduler = replace(study)
    run_out(workers, scheduler, most=12)
    scheduler.stop_opening()
    run_out(workers, scheduler)
    assert scheduler.complete
    assert scheduler.state.winner is not None
    assert len(scheduler.state.configurations) < CONFIGS


def test_a_plan_says_how_many_seed_runs_a_race_needs(prepare: Prepare) -> None:
    plan = plan_prepared(prepared(prepare, tracking="none"))
    assert (plan["race"], plan["stages"]) == (BAND, (2, 4, 8))
    assert (plan["seed_runs"], plan["missing"]) == (CONFIGS * SEEDS, 8 * 2 + 3 * 8)
