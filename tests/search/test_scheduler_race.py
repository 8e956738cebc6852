"""Tests of the scheduler with a race, and with budgets of seed runs and compute hours."""

import random
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.worker_failures import WorkerFailure
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.callbacks import Progress
from sclsearch.search.estimate import estimate
from sclsearch.search.plan import plan_prepared
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.study.budget import (
    CPU_HOURS,
    GPU_HOURS,
    Budget,
    BudgetUse,
    parse_compute_budget,
)
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.seed_runs import SeedRunTask
from sclsearch.study.spec import RunOptions
from tests.workspace import MakeSpec, Prepare, Workers

ROWS = 1000
CONFIGS, SEEDS, RISK = 8, 10, 0.05
HOURS = (0.5, 0.25, 1.0)
"""Training hours of seed runs, in turn for configurations 0, 1, 2, 3, …"""
# The first configuration, the published one, is good; the fourth is better.
MEANS = (0.80, 0.60, 0.55, 0.84, 0.70, 0.62, 0.50, 0.66)


def trained(workers: Workers, task: SeedRunTask) -> SeedRun:
    """Return a finished seed run whose score is near its configuration's mean."""
    number, seed = task.id
    mean = MEANS[number % CONFIGS] - number // CONFIGS / 50
    right = round(ROWS * (mean + random.Random(100 * number + seed).gauss(0, 0.01)))
    counts = {"confusion": [[right, ROWS - right], [0, 0]]}
    evaluation = {"epoch": 1.0, "update": 4, "loss": {}, "validation": counts}
    seconds = 3600 * HOURS[number % len(HOURS)]
    return replace(workers.trained(task), evaluations=(evaluation,), test=counts, seconds=seconds)


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


def prepared(prepare: Prepare, race: float | str = RISK, **changes: object) -> PreparedStudy:
    return prepare(configs=CONFIGS, seeds=SEEDS, race=race, **changes)


Raced = tuple[PreparedStudy, Scheduler, list[tuple[int, int]]]


@pytest.fixture
def raced(prepare: Prepare, workers: Workers) -> Raced:
    """Return a stored study, its scheduler after a race, and the ids of trained seed runs."""
    study = prepared(prepare)
    study.begin()
    scheduler = Scheduler(study)
    return study, scheduler, run_out(workers, scheduler)


def test_a_race_skips_seeds_and_finds_the_winner_of_the_full_search(raced: Raced) -> None:
    study, scheduler, ids = raced
    assert scheduler.complete
    assert len(ids) == len({*ids}) == len(scheduler.state.seed_runs)
    assert scheduler.skipped == CONFIGS * SEEDS - len(ids) > CONFIGS * SEEDS / 4
    found = report(study.storage, study.store.name)
    assert finished_winner(found).number == 3
    assert 0 < found.risk <= RISK
    assert found.notes[0] == (
        f"P(another winner) ≤ {found.risk:.2g} by the model: {len(scheduler.state.paused)} of 8 "
        f"configurations lack seeds, {len(scheduler.state.seed_runs)} of 80 seed runs trained"
    )
    forecasts = {line.number: line.forecast for line in found.configurations if line.score is None}
    assert (forecasts, found.risk) == scheduler.state.forecasts()


def test_skipped_seed_runs_are_counted_and_take_no_time(prepare: Prepare, raced: Raced) -> None:
    study, first, _ = raced
    scheduler = Scheduler(prepared(prepare), dry=True)
    scheduler.refill()
    assert scheduler.skipped == first.skipped > 0
    assert estimate(study, scheduler, 1, list).seconds == 0.0
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
    again = Scheduler(prepared(prepare), retry_failed=True)
    assert run_out(workers, again) == []
    assert (again.skipped, again.skipped_failures) == (first.skipped, 1)
    whole = Scheduler(prepared(prepare, "off"), retry_failed=True)
    assert left_out.id in run_out(workers, whole)
    assert whole.skipped_failures == 0


def test_a_race_skips_the_remaining_seeds_of_a_diverged_configuration(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = Scheduler(prepared(prepare, 0.0))
    failure = Failure("non-finite", "loss ce is nan at update 7")
    while tasks := workers.running(scheduler, 2):
        run = trained(workers, tasks[0])
        if tasks[0].id[0] == 1:
            run = replace(run, evaluations=(), test={}, failure=failure)
        scheduler.runs.put(run)
        scheduler.finish(tasks[0], run)
    assert 2 <= sum(number == 1 for number, _ in scheduler.state.seed_runs) < 5
    assert scheduler.complete


def test_a_failed_seed_run_of_a_paused_configuration_stays_stored(
    prepare: Prepare, workers: Workers
) -> None:
    study = prepared(prepare, "off")
    scheduler = Scheduler(study)
    while tasks := workers.running(scheduler, 2):
        run = trained(workers, tasks[0])
        if tasks[0].id == (1, 5):
            run = replace(run, evaluations=(), test={}, failure=Failure("worker-lost", "gone"))
        scheduler.runs.put(run)
        scheduler.finish(tasks[0], run)
    again = Scheduler(prepared(prepare), retry_failed=True)
    assert run_out(workers, again) == []
    assert again.complete
    (failed,) = (run for run in study.runs.all() if run.failure)
    assert failed.origin["replicate"] == 5
    assert run_out(workers, Scheduler(study, retry_failed=True)) == [(1, 5)]
    assert not any(run.failure for run in study.runs.all())


def test_a_race_opens_more_configurations_for_many_workers(prepare: Prepare) -> None:
    assert prepared(prepare, concurrency=64).record.open_configurations == 33
    assert prepared(prepare, "off", concurrency=64).record.open_configurations == 8


def test_samplers_that_ignore_scores_open_all_configurations_at_once(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    spec = make_spec(sampler="random")
    scheduler = Scheduler(prepare(spec, configs=CONFIGS, seeds=SEEDS, race=RISK))
    started = [scheduler.next() for _ in range(2 * CONFIGS + 1)]
    assert {task.id[1] for task in started[:-1] if task} == {0, 1}
    assert started[-1] is None
    assert len(scheduler.state.configurations) == CONFIGS


def test_a_race_at_a_risk_of_0_is_the_default_of_samplers_that_ignore_scores(
    make_spec: MakeSpec, prepare: Prepare
) -> None:
    for sampler, seeds, race, risk in (
        ("random", SEEDS, None, 0.0),
        ("tpe", SEEDS, None, None),
        ("random", SEEDS, "off", None),
        ("random", 2, None, None),
    ):
        assert prepare(make_spec(sampler=sampler), seeds=seeds, race=race).risk == risk


@pytest.mark.parametrize("at_a_time", [1, 4])
@pytest.mark.parametrize("race", [None, "off"])
@pytest.mark.parametrize(
    ("sampler", "budget"),
    [
        ("random", {"seed_runs": 60}),
        ("random", {"compute_budget": "60cpuh", "cpus_per_trial": 2}),
        ("tpe", {"compute_budget": "60cpuh", "cpus_per_trial": 2}),
    ],
    ids=["seed runs", "hours", "hours with tpe"],
)
def test_two_starts_spend_a_budget_on_as_many_configurations_as_possible(
    make_spec: MakeSpec,
    prepare: Prepare,
    workers: Workers,
    at_a_time: int,
    race: str | None,
    sampler: str,
    budget: dict[str, object],
) -> None:
    spec = make_spec(sampler=sampler)
    options = {"configs": None, "seeds": SEEDS, "race": race, **budget}
    ids = run_out(workers, Scheduler(prepare(spec, **options).begin()), at_a_time, most=25)
    scheduler = Scheduler(prepare(spec, **options))
    ids += run_out(workers, scheduler, at_a_time)
    assert scheduler.complete
    assert len(ids) == len({*ids})
    costs, over = [1.0] * len(ids), 0.0
    if "compute_budget" in budget:
        costs = [2 * HOURS[number % len(HOURS)] for number, _ in ids]
        over = at_a_time * max(costs)
    assert scheduler.spending.spent == pytest.approx(sum(costs))
    assert 60 - SEEDS * max(costs) < sum(costs) <= 60 + over
    assert scheduler.state.winner is not None
    assert scheduler.needed == (0, 0, 0)
    assert len(scheduler.state.configurations) >= (4 if race == "off" else 8)
    assert run_out(workers, Scheduler(prepare(spec, **options))) == []


@pytest.mark.parametrize("at_a_time", [1, 4])
@pytest.mark.parametrize("budget", [SEEDS, SEEDS + 1, 2 * SEEDS - 1, 2 * SEEDS, 2 * SEEDS + 2])
@pytest.mark.parametrize("unit", ["seed runs", "hours"])
def test_a_small_budget_ends_with_a_winner(
    make_spec: MakeSpec,
    prepare: Prepare,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    at_a_time: int,
    budget: int,
    unit: str,
) -> None:
    monkeypatch.setattr(f"{__name__}.HOURS", (1.0,))
    given: dict[str, object] = {"seed_runs": budget}
    if unit == "hours":
        given = {"compute_budget": f"{budget}cpuh", "cpus_per_trial": 1}
    spec = make_spec(sampler="random")
    options = {"configs": None, "seeds": SEEDS, "race": RISK, **given}
    scheduler = Scheduler(prepare(spec, **options))
    scheduler.spending.expect(3600)
    run_out(workers, scheduler, at_a_time)
    assert scheduler.complete
    assert scheduler.state.winner is not None


def test_a_larger_compute_budget_continues_and_a_start_without_one_reports_none(
    make_spec: MakeSpec, prepare: Prepare, workers: Workers
) -> None:
    options = {"configs": None, "cpus_per_trial": 2, "seeds": SEEDS}
    study = prepare(make_spec(), compute_budget="2cpuh", **options).begin()
    few = run_out(workers, Scheduler(study))
    found = report(study.storage, study.store.name)
    assert found.winner is None
    assert found.notes[0] == (
        f"budget: {len(few)} of 2 CPU-hours spent; no configuration has all seeds, so raise the "
        "budget"
    )
    larger = prepare(make_spec(), compute_budget="60cpuh", **options).begin()
    more = run_out(workers, Scheduler(larger))
    assert len(more) > 10 * len(few)
    found = report(study.storage, study.store.name)
    assert found.winner is not None
    assert found.budget is not None
    assert 60 - 2 * SEEDS < found.budget.spent < 62
    assert f"budget: {found.budget.spent:.3g} of 60 CPU-hours spent" in found.notes
    prepare(make_spec(), configs=4, seeds=SEEDS).begin()
    assert report(study.storage, study.store.name).budget is None


def test_running_seed_runs_count_with_their_expected_cost(
    make_spec: MakeSpec, prepare: Prepare, workers: Workers
) -> None:
    options = {"configs": None, "compute_budget": "4cpuh", "seeds": SEEDS, "race": "off"}
    scheduler = Scheduler(prepare(make_spec(settings={}, sampler="random"), **options))
    assert len(workers.running(scheduler, 3)) == 3  # no duration is known yet
    run_out(workers, scheduler, at_a_time=3, most=1)
    # 0.5 hours are spent and two running seed runs cost 1 hour: 2.5 of 4 hours are left.
    assert scheduler.left == 5
    assert len(workers.running(scheduler)) == 7
    assert scheduler.left == 0
    assert not scheduler.complete
    assert scheduler.needed == (7, 7, 7)


def test_stored_seed_runs_count_with_the_resources_that_they_used() -> None:
    hours = {"gpus": 0.25, "threads": 8}
    run = SeedRun("k", {}, {}, seconds=7200, environment=hours)
    for text, cost in (("1gpuh", 0.5), ("1cpuh", 16)):
        assert parse_compute_budget(text).cost(run) == cost
    earlier = replace(run, environment={"threads": 8})
    assert Budget(1, GPU_HOURS, 0.5).cost(earlier) == 1


def test_a_plan_shows_how_many_seed_runs_fit_into_a_compute_budget(
    make_spec: MakeSpec, prepare: Prepare, workers: Workers, tmp_path: Path
) -> None:
    options = {"configs": None, "compute_budget": "60cpuh", "seeds": SEEDS}
    study = prepare(make_spec(), **options).begin()
    run_out(workers, Scheduler(study), most=8)
    own = plan_prepared(prepare(make_spec(), **options), RunOptions(tracking="none"), list)
    assert own.budget is not None
    each = own.budget.spent / 8
    assert 0.25 < each < 1
    missing = int(60 / each - 8)
    assert (own.stored, own.missing, own.seed_runs) == (8, missing, missing + 8)
    new = prepare(make_spec(), storage=tmp_path / "new", **options)
    spec = new.study.seed_run_spec({}, 0, new.splits[0])
    stored = SeedRun(
        spec.key,
        spec.identity,
        new.record.origin,
        test={"confusion": [[1, 0], [0, 1]]},
        seconds=7200.0,
        environment={"threads": 1},
    )
    alike = plan_prepared(new, RunOptions(tracking="none"), lambda: [stored])
    assert alike.budget == BudgetUse(60, CPU_HOURS, 0)
    assert (alike.stored, alike.missing, alike.seed_runs) == (0, 30, 30)


@pytest.mark.parametrize("text", ["8", "0gpuh", "8h", "nancpuh"])
def test_an_invalid_compute_budget_is_refused(text: str) -> None:
    with pytest.raises(SclsearchError) as caught:
        RunOptions(compute_budget=text)
    assert str(caught.value) == (
        "--compute-budget: must be a positive number of GPU- or CPU-hours, as in 8gpuh or 20cpuh, "
        f"got {text!r}."
    )


def test_a_budget_that_conflicts_with_other_options_is_refused(prepare: Prepare) -> None:
    refused: list[tuple[dict[str, object], str]] = [
        (
            {"configs": 4, "compute_budget": "2cpuh"},
            "--compute-budget 2cpuh: must come without --configs, got 4.",
        ),
        (
            {"configs": None, "compute_budget": "2cpuh", "seed_runs": 60},
            "--compute-budget 2cpuh: must come without --seed-runs, got 60.",
        ),
        (
            {"configs": None, "compute_budget": "2gpuh"},
            "--compute-budget 2gpuh: seed runs of this search use no GPU.",
        ),
        ({"configs": 4, "seed_runs": 60}, "--seed-runs 60: must come without --configs, got 4."),
        ({"configs": None, "seed_runs": 9}, "--seed-runs: must be at least 10, the seeds of one"),
    ]
    for options, message in refused:
        with pytest.raises(SclsearchError) as caught:
            prepare(seeds=SEEDS, **options)
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("seeds", "runs", "at_a_time"), [(3, 4, 2), (5, 20, 2), (5, 20, 8)])
def test_a_small_budget_of_seed_runs_completes_a_configuration(
    prepare: Prepare, workers: Workers, tmp_path: Path, seeds: int, runs: int, at_a_time: int
) -> None:
    for draw in range(12):
        changes = {"seeds": seeds, "seed_runs": runs, "concurrency": at_a_time}
        study = prepare(configs=None, storage=tmp_path / str(draw), **changes)
        scheduler = Scheduler(study.begin())
        while tasks := workers.running(scheduler, at_a_time):
            number, seed = tasks[0].id
            mean = 0.6 + random.Random(f"{draw} {number}").random() / 10
            right = round(ROWS * (mean + random.Random(f"{draw} {number} {seed}").gauss(0, 0.02)))
            counts = {"confusion": [[right, ROWS - right], [0, 0]]}
            run = replace(
                workers.trained(tasks[0]),
                evaluations=({"epoch": 1.0, "update": 4, "loss": {}, "validation": counts},),
            )
            scheduler.runs.put(run)
            scheduler.finish(tasks[0], run)
        assert len(scheduler.state.seed_runs) <= runs
        assert scheduler.state.winner is not None


def test_the_last_affordable_configuration_retries_failed_seeds_last(prepare: Prepare) -> None:
    scheduler = Scheduler(prepare(configs=None, seeds=3, seed_runs=3, concurrency=1).begin())
    first, started = scheduler.next(), []
    assert first is not None
    scheduler.record_failure(first, WorkerFailure("worker-lost", "a test"))
    while task := scheduler.next():
        started.append(task.id)
    assert started == [(0, 1), (0, 2), (0, 0)]
