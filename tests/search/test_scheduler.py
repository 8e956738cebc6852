"""Tests of the scheduler: missing seed runs, proposals, retries, bad nodes, stops and races."""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.failures import RETRIES, WorkerFailure, WorkerFailures
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.callbacks import Callback
from sclsearch.search.plan import estimated_seconds, plan_prepared
from sclsearch.search.proposals import ObservedConfiguration, Proposals
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.study.state import ConfigurationScore, SeedRunTask
from tests.studies import Confusion, MakeSpec, Prepare, Workers, seed_run


class Diary(Callback):
    """Callback that records the seed runs, whether each was stored before, and the scores."""

    def __init__(self) -> None:
        self.seed_runs: list[tuple[tuple[int, int], bool]] = []
        self.scores: list[int] = []

    def on_seed_run(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        self.seed_runs.append((task.id, stored))

    def on_score(self, score: ConfigurationScore) -> None:
        self.scores.append(score.number)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_fifth_configuration_waits_for_the_scores_of_the_first_three(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare(configs=5)
    first = workers.running(scheduler)
    assert [task.id for task in first] == [(n, seed) for n in range(4) for seed in (0, 1)]
    for task in (*first[2:], first[0]):
        workers.finish(scheduler, task)
        assert scheduler.next() is None
    workers.finish(scheduler, first[1])
    assert [task.id for task in workers.running(scheduler)] == [(4, 0), (4, 1)]


@pytest.mark.parametrize("sampler", ["gp", "random"])
def test_proposals_read_two_thirds_of_the_scores_and_are_the_same_on_any_number_of_workers(
    prepare: Prepare,
    make_spec: MakeSpec,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sampler: str,
) -> None:
    read: list[int] = []

    def counting(proposals: Proposals, known: Sequence[ObservedConfiguration]) -> Any:
        read.append(sum(one.score is not None for one in known))
        return propose(proposals, known)

    propose = Proposals.next
    monkeypatch.setattr(Proposals, "next", counting)
    proposed, busy = [], []
    for slots in (2, 8, 64):
        read.clear()
        draw = random.Random(slots)
        storage = tmp_path / f"{slots} slots"
        spec = make_spec(sampler=sampler)
        scheduler = prepare(spec, configs=20, seeds=10, concurrency=slots, storage=storage)
        assert scheduler.band is not None
        while tasks := workers.running(scheduler, slots):
            if len(scheduler.state.configurations) < 20:
                busy.append(len(tasks) / min(slots, 4 * len(scheduler.state.configurations)))
            workers.finish(scheduler, draw.choice(tasks))
        expected = [math.ceil(2 * n / 3) if n >= 4 else 0 for n in range(20)]
        assert sampler == "random" or read == expected
        proposed.append([one.values for one in scheduler.state.configurations])
    assert proposed[0] == proposed[1] == proposed[2]
    assert sum(busy) / len(busy) > 0.7  # idle workers take further seeds


@pytest.mark.parametrize("finished", [1, 23])
def test_a_resumed_search_proposes_the_same_and_trains_only_missing_seed_runs(
    prepare: Prepare, workers: Workers, tmp_path: Path, finished: int
) -> None:
    undisturbed = prepare(configs=14)
    everything = workers.run_out(undisturbed)
    scheduler = prepare(configs=14, storage=tmp_path / "killed").begin()
    for _ in range(finished):
        workers.finish(scheduler, workers.running(scheduler, at_a_time=2)[0])
    diary = Diary()
    again = replace(prepare(configs=14, storage=tmp_path / "killed"), callbacks=[diary])
    again.refill()
    assert (again.report().configs, again.report().finished) == (14, False)
    stored = [place for place, from_store in diary.seed_runs if from_store]
    assert sorted(stored) == sorted(scheduler.state.seed_runs)
    rest = workers.run_out(again)
    assert again.complete
    assert again.report().finished
    assert sorted([*stored, *rest]) == sorted(everything)
    one, other = (
        [configuration.values for configuration in search.store.configurations()]
        for search in (again, undisturbed)
    )
    assert one == other


def test_stored_seed_runs_are_read_in_one_batch_and_others_are_not_looked_for(
    prepare: Prepare, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counting(store: RunStore, keys: Iterable[str]) -> tuple[list[SeedRun | None], Any]:
        wanted = [*keys]
        read.append(len(wanted))
        return get_valid(store, wanted)

    get_valid = RunStore.get_valid
    workers.run_out(prepare(configs=14))
    monkeypatch.setattr(RunStore, "get_valid", counting)
    prepare(configs=14).refill()
    prepare(configs=9).refill()
    longer = prepare(configs=16)
    workers.running(longer, 4)
    assert read == [28, 18, 28, 0, 0]


def test_a_seed_run_that_finishes_twice_counts_once_and_leaves_its_scores_in_memory(
    prepare: Prepare, workers: Workers
) -> None:
    diary = Diary()
    scheduler = replace(prepare(configs=2), callbacks=[diary])
    first, second = workers.running(scheduler, 2)
    run = replace(workers.trained(first), predictions={"test": [1.0] * 20})
    scheduler.runs.put(run)
    for _ in range(2):
        scheduler.finish(first, run)
    workers.finish(scheduler, second)
    assert diary.seed_runs == [(first.id, False), (second.id, False)]
    assert diary.scores == [0]
    kept = scheduler.state.seed_runs[first.id]
    assert (kept.key, kept.validation, kept.test) == (run.key, run.validation, run.test)
    assert (kept.predictions, kept.origin, len(kept.evaluations)) == ({}, {}, 1)
    assert scheduler.runs.get(first.key) == run


def test_seed_runs_that_workers_store_after_the_end_of_tune_count(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare()
    stored, abandoned, *_ = workers.running(scheduler)
    scheduler.runs.put(workers.trained(stored))
    assert not scheduler.state.seed_runs
    scheduler.read_running()
    assert list(scheduler.state.seed_runs) == [stored.id]
    assert abandoned.id in scheduler.running


def test_an_exception_of_a_callback_names_it_and_loses_no_result(
    prepare: Prepare, workers: Workers
) -> None:
    class Broken(Callback):
        def on_score(self, score: ConfigurationScore) -> None:
            raise ZeroDivisionError("no rows")

    with pytest.raises(SclsearchError, match=r"^Broken\.on_score: .* ZeroDivisionError: no rows\."):
        workers.run_out(replace(prepare(configs=1).begin(), callbacks=[Broken()]))
    diary = Diary()
    replace(prepare(configs=1), callbacks=[diary]).refill()
    assert len(diary.seed_runs) == 2


def test_more_configurations_or_seeds_train_only_what_no_study_has_and_fewer_delete_nothing(
    prepare: Prepare, workers: Workers, tmp_path: Path
) -> None:
    workers.run_out(prepare(configs=2))
    assert workers.run_out(prepare(configs=5)) == [(n, r) for n in (2, 3, 4) for r in (0, 1)]
    assert workers.run_out(prepare(configs=5, seeds=3)) == [(n, 2) for n in range(5)]
    assert workers.run_out(prepare(configs=4, seeds=3, rule="best", study="other")) == []
    before = files(tmp_path / "storage")
    shorter = prepare(configs=1)
    assert shorter.next() is None
    assert shorter.complete
    assert len(shorter.state.seed_runs) == 2
    assert files(tmp_path / "storage") == before


FIRST, SECOND, THIRD = (f"10.0.0.{number}" for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("cause", "retries"),
    [*dict.fromkeys(("hang", "out-of-memory", "gpu-assert"), 1).items(), ("worker-lost", 4)],
)
def test_a_lost_seed_run_is_retried_and_then_fails(
    prepare: Prepare, workers: Workers, cause: str, retries: int
) -> None:
    scheduler = prepare(configs=1, seeds=1)
    (task,) = workers.running(scheduler)
    for other in {"hang", "gpu-assert"} - {cause}:  # each cause has retries of its own
        scheduler.record_failure(task, WorkerFailure(other, "seen", FIRST))
        assert scheduler.next() == task
    for _ in range(retries):
        scheduler.record_failure(task, WorkerFailure(cause, "seen", FIRST))
        assert scheduler.runs.get(task.key) is None
        assert scheduler.next() == task
    scheduler.record_failure(task, WorkerFailure(cause, "seen", FIRST))
    assert scheduler.state.seed_runs[task.id].failure == Failure(cause, "seen")
    assert scheduler.complete
    # A lost or slow worker says nothing about the seed run: the next search trains it again.
    final = cause in {"out-of-memory", "gpu-assert"}
    stored = scheduler.runs.get(task.key)
    assert (stored is not None) == final
    if stored is not None:
        assert stored.failure == Failure(cause, "seen")
        assert (stored.origin["configuration"], stored.origin["replicate"]) == task.id


def test_lost_nodes_fail_no_seed_run_and_the_least_lost_ones_come_first(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare()
    order = []
    for _ in range(120):
        (task,) = workers.running(scheduler, 1)
        order.append(task.id)
        scheduler.record_failure(task, WorkerFailure("node-lost", "seen", FIRST))
    assert order == [(number, seed) for number in range(4) for seed in (0, 1)] * 15
    assert not scheduler.state.seed_runs


def fail_all(scheduler: Scheduler, failure: WorkerFailure) -> None:
    while task := scheduler.next():
        scheduler.record_failure(task, failure)


def test_one_bad_node_is_named_and_fails_no_seed_run(prepare: Prepare, workers: Workers) -> None:
    scheduler = prepare(configs=20, concurrency=8)
    first, *_ = workers.running(scheduler, at_a_time=6)
    scheduler.finish(first, workers.trained(first), node=SECOND)
    with pytest.raises(SclsearchError, match=rf"^node {FIRST}: .* seen\. Repair"):
        fail_all(scheduler, WorkerFailure("worker-lost", "seen", FIRST))
    assert [*scheduler.state.seed_runs] == [first.id]


def test_an_unfit_node_is_left_out_with_one_line_until_all_nodes_are_unfit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = WorkerFailures()
    for attempt in range(100):
        assert failures.add((0, attempt % 2), WorkerFailure("node-unfit", "old torch", FIRST))
        failures.check_nodes([FIRST, SECOND])
    assert caplog.messages == [f"node {FIRST} trains no seed runs: old torch"]
    failures.add((0, 0), WorkerFailure("node-unfit", "no model", SECOND))
    with pytest.raises(SclsearchError) as caught:
        failures.check_nodes([FIRST, SECOND])
    assert str(caught.value) == f"node {FIRST}: old torch\nnode {SECOND}: no model"
    failures.finished_on(SECOND)
    failures.check_nodes([FIRST, SECOND])


@pytest.mark.parametrize(
    ("cause", "finished_on", "nodes"),
    [
        ("worker-lost", FIRST, [FIRST]),
        ("worker-lost", SECOND, [FIRST, THIRD]),
        ("worker-lost", SECOND, [""]),
        ("gpu-assert", SECOND, [FIRST]),
    ],
)
def test_a_seed_run_fails_if_no_single_node_is_to_blame(
    prepare: Prepare, workers: Workers, cause: str, finished_on: str, nodes: list[str]
) -> None:
    scheduler = prepare(configs=1)
    good, bad = workers.running(scheduler)
    scheduler.finish(good, workers.trained(good), node=finished_on)
    for attempt in range(int(RETRIES[cause]) + 1):
        scheduler.record_failure(bad, WorkerFailure(cause, "seen", nodes[attempt % len(nodes)]))
        scheduler.next()
    assert scheduler.state.seed_runs[bad.id].failure == Failure(cause, "seen")


def test_a_failed_seed_counts_as_the_metrics_minimum(
    prepare: Prepare, workers: Workers, make_spec: MakeSpec
) -> None:
    scheduler = prepare(make_spec(metric="mcc"))
    good, bad = workers.running(scheduler, at_a_time=2)
    workers.finish(scheduler, good)
    assert 0 not in scheduler.state.scores
    scheduler.finish(bad, seed_run(bad, None))
    value = scheduler.state.seed_runs[good.id].validated("mcc")
    assert value is not None
    assert scheduler.state.scores[0].score == scheduler.state.first_scores()[0] == (value - 1) / 2


def test_a_search_whose_first_seed_runs_fail_alike_stops_and_can_be_resumed(
    prepare: Prepare, workers: Workers
) -> None:
    for expected in ([(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)]):
        scheduler = prepare()
        first, second = workers.running(scheduler, 2)
        for task in (first, second):
            scheduler.runs.put(seed_run(task, None))
        scheduler.finish(first, seed_run(first, None))
        with pytest.raises(SclsearchError, match=r"^method scl: the first 2 .* a test\. Fix"):
            scheduler.finish(second, seed_run(second, None))
        assert [*scheduler.state.seed_runs] == expected
    last = prepare()
    workers.run_out(last)
    assert last.complete


def test_a_search_with_different_failures_or_one_success_continues(
    prepare: Prepare, workers: Workers
) -> None:
    raised, diverged = Failure("raised", "a test"), Failure("non-finite", "a test")
    for failures in ((None, raised), (replace(raised, message="b"), raised), (diverged, diverged)):
        scheduler = prepare()
        for task, failure in zip(workers.running(scheduler, 2), failures, strict=True):
            scheduler.finish(task, replace(workers.trained(task), failure=failure))
        assert workers.running(scheduler)


def test_failed_seed_runs_are_trained_again_only_on_request(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare(configs=1)
    good, bad = workers.running(scheduler)
    workers.finish(scheduler, good)
    scheduler.runs.put(seed_run(bad, None))
    same = prepare(configs=1)
    assert workers.running(same) == []
    assert same.complete
    again = prepare(configs=1, retry_failed=True)
    assert workers.run_out(again) == [bad.id]
    assert again.complete
    aside = (again.runs.folder / "retried").names()
    assert [name.partition("-")[0] for name in aside] == [bad.key]
    assert workers.running(prepare(configs=1, retry_failed=True)) == []


ROWS = 1000
CONFIGS, SEEDS, BAND = 8, 10, 2.5
# The first configuration, the published one, is good; the fourth is better.
MEANS = (0.80, 0.60, 0.55, 0.84, 0.70, 0.62, 0.50, 0.66)

Raced = tuple[Scheduler, list[tuple[int, int]]]


@pytest.fixture
def racers() -> Workers:
    """Return fake workers whose scores are near the means of the configurations."""

    def counts(number: int, seed: int) -> Confusion:
        right = round(ROWS * (MEANS[number] + random.Random(100 * number + seed).gauss(0, 0.01)))
        return [[right, ROWS - right], [0, 0]]

    return Workers(counts)


def prepared(prepare: Prepare, race: float | str = BAND, **changes: object) -> Scheduler:
    return prepare(configs=CONFIGS, seeds=SEEDS, race=race, **changes)


@pytest.fixture
def raced(prepare: Prepare, racers: Workers) -> Raced:
    """Return a scheduler after a race that stopped once, and the ids of trained seed runs."""
    ids = racers.run_out(prepared(prepare).begin(), most=37)
    found = report(prepared(prepare).storage, prepared(prepare).name)
    assert not found.finished
    scheduler = prepared(prepare)
    return scheduler, ids + racers.run_out(scheduler)


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
    assert estimated_seconds(again) == 0.0
    plan = plan_prepared(prepared(prepare, study="new", storage=tmp_path / "new", tracking="none"))
    assert (plan["race"], plan["stages"]) == (BAND, (2, 4, 8))
    assert (plan["seed_runs"], plan["missing"]) == (CONFIGS * SEEDS, 8 * 2 + 3 * 8)


def test_a_resumed_race_proposes_the_same_configurations(
    prepare: Prepare, racers: Workers, raced: Raced, tmp_path: Path
) -> None:
    whole = prepared(prepare, study="whole", storage=tmp_path / "whole")
    racers.run_out(whole.begin())
    stored = [one.values for one in raced[0].store.configurations()]
    assert [one.values for one in whole.store.configurations()] == stored
    assert len(stored) == CONFIGS


def test_failed_seed_runs_that_a_race_leaves_out_are_counted_and_stay_stored(
    prepare: Prepare, raced: Raced, racers: Workers
) -> None:
    first, (*_, last) = raced
    left_out, *_ = first.queue.values()
    first.runs.put(seed_run(left_out, None))
    needed = first.state.seed_runs[last]
    (first.runs.folder / f"{needed.key}.json").remove()
    first.runs.put(replace(needed, evaluations=(), failure=Failure("raised", "a test")))
    again = prepared(prepare, retry_failed=True)
    assert racers.run_out(again) == [last]
    assert (again.skipped, again.skipped_failures) == (first.skipped, 1)
    assert [run.key for run in first.runs.all() if run.failure] == [left_out.key]
    whole = prepared(prepare, "off", retry_failed=True)
    assert left_out.id in racers.run_out(whole)
    assert whole.skipped_failures == 0
    assert not any(run.failure for run in first.runs.all())


def test_a_random_search_opens_a_configuration_when_it_can_run(
    make_spec: MakeSpec, prepare: Prepare, racers: Workers
) -> None:
    spec = make_spec(sampler="random")
    scheduler = prepare(spec, configs=50, seeds=SEEDS, race=BAND).begin()
    racers.running(scheduler, 3)
    assert len(scheduler.store.configurations()) == 2
    order = racers.run_out(prepared(prepare, spec=spec, study="eight").begin())
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
    prepare: Prepare, racers: Workers
) -> None:
    scheduler = prepare(configs=100, seeds=SEEDS, race=BAND).begin()
    racers.run_out(scheduler, most=8)
    scheduler.stop_opening()
    racers.run_out(scheduler)
    assert scheduler.complete
    assert scheduler.state.winner is not None
    assert len(scheduler.state.configurations) < CONFIGS
