"""Tests of the scheduler: it trains each missing seed run once and repeats its proposals."""

from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.search.callbacks import Callback
from sclsearch.search.proposals import ObservedConfiguration, propose
from sclsearch.store.runs import SeedRun
from sclsearch.study.state import ConfigurationScore, SeedRunTask
from tests.workspace import Prepare, Workers


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


def test_seed_runs_are_ordered_by_configuration_with_two_configurations_open(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare()
    first = workers.running(scheduler)
    assert [task.id for task in first] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for task in (first[2], first[3], first[0]):
        workers.finish(scheduler, task)
        assert scheduler.next() is None
    workers.finish(scheduler, first[1])
    assert [task.id for task in workers.running(scheduler)] == [(2, 0), (2, 1), (3, 0), (3, 1)]


@pytest.mark.parametrize(
    ("concurrency", "seeds", "race", "expected"),
    [(1, 2, "off", 2), (8, 2, "off", 5), (8, 5, "off", 3), (64, 10, "off", 8), (64, 10, 2.5, 33)],
)
def test_enough_configurations_are_open_to_keep_every_worker_busy(
    prepare: Prepare,
    workers: Workers,
    concurrency: int,
    seeds: int,
    race: float | str,
    expected: int,
) -> None:
    scheduler = prepare(concurrency=concurrency, seeds=seeds, configs=80, race=race)
    assert scheduler.record.open_configurations == expected
    for _ in range(2 * min(concurrency, 8)):
        tasks = workers.running(scheduler, concurrency)
        assert len(tasks) == concurrency
        workers.finish(scheduler, tasks[0])


def test_a_search_resumed_with_more_workers_keeps_them_busy_and_uses_every_score_used_before(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare(configs=40, concurrency=2).begin()
    for _ in range(26):
        workers.finish(scheduler, workers.running(scheduler, 2)[0])
    resumed = prepare(configs=40, concurrency=16).begin()
    resumed.widen(16)
    for _ in range(20):
        tasks = workers.running(resumed, 16)
        assert len(tasks) == 16
        workers.finish(resumed, tasks[0])
    state, study = resumed.state, resumed.study
    # 2 configurations were open before, and 9 are open from configuration 14 on.
    assert len(state.configurations) > 22
    for number, configuration in enumerate(state.configurations):
        used = number - 1 if number < 14 else max(12, number - 8)
        scores = {n: one.score for n, one in state.scores.items() if n < used}
        known = [
            ObservedConfiguration(before.values, scores.get(before.number))
            for before in state.configurations[:number]
        ]
        proposal = propose(study.space, study.sampler, study.search_seed, known)
        assert proposal == (configuration.values, configuration.origin)


@pytest.mark.parametrize("finished", [1, 23])
def test_a_resumed_search_proposes_the_same_and_trains_only_missing_seed_runs(
    prepare: Prepare, workers: Workers, tmp_path: Path, finished: int
) -> None:
    undisturbed = prepare(configs=14)
    everything = workers.run_out(undisturbed)
    scheduler = prepare(configs=14, storage=tmp_path / "killed")
    for _ in range(finished):
        workers.finish(scheduler, workers.running(scheduler, at_a_time=2)[0])
    diary = Diary()
    again = replace(prepare(configs=14, storage=tmp_path / "killed"), callbacks=[diary])
    again.refill()
    stored = [place for place, from_store in diary.seed_runs if from_store]
    assert sorted(stored) == sorted(scheduler.state.seed_runs)
    rest = workers.run_out(again)
    assert again.complete
    assert sorted([*stored, *rest]) == sorted(everything)
    one, other = (
        [configuration.values for configuration in search.store.configurations()]
        for search in (again, undisturbed)
    )
    assert one == other


def test_a_seed_run_that_finishes_twice_counts_once_and_leaves_no_predictions_in_memory(
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
    assert scheduler.state.seed_runs[first.id] == replace(run, predictions={})
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


@pytest.mark.parametrize(
    ("event", "stored"), [("on_configuration", 0), ("on_seed_run", 1), ("on_score", 2)]
)
def test_an_exception_of_a_callback_names_it_and_loses_no_result(
    prepare: Prepare, workers: Workers, event: str, stored: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no rows")

    broken = type("Broken", (Callback,), {event: fail})()
    with pytest.raises(SclsearchError, match=rf"^Broken\.{event}: .* ZeroDivisionError: no rows\."):
        workers.run_out(replace(prepare(configs=1).begin(), callbacks=[broken]))
    diary = Diary()
    replace(prepare(configs=1), callbacks=[diary]).refill()
    assert len(diary.seed_runs) == stored


def test_more_configurations_or_seeds_train_only_what_no_study_has_and_fewer_delete_nothing(
    prepare: Prepare, workers: Workers, tmp_path: Path
) -> None:
    workers.run_out(prepare(configs=2))
    assert workers.run_out(prepare(configs=5)) == [(n, r) for n in (2, 3, 4) for r in (0, 1)]
    assert workers.run_out(prepare(configs=5, seeds=3)) == [(n, 2) for n in range(5)]
    assert workers.run_out(prepare(configs=5, seeds=3, rule="best", study="other")) == []
    before = files(tmp_path / "storage")
    shorter = prepare(configs=1)
    assert shorter.next() is None
    assert shorter.complete
    assert len(shorter.state.seed_runs) == 2
    assert files(tmp_path / "storage") == before
