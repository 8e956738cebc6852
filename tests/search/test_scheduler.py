"""Tests of the scheduler: it trains each missing seed run once and repeats its proposals."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.search.callbacks import Callback
from sclsearch.search.proposals import ObservedConfiguration, propose
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import seed_run_key
from sclsearch.study.state import ConfigurationScore, SeedRunTask
from tests.workspace import MakeSpec, Prepare, Workers


class Diary(Callback):
    """Callback that records the seed runs, whether each was stored before, and the scores."""

    def __init__(self) -> None:
        self.seed_runs: list[tuple[tuple[int, int], bool]] = []
        self.scores: list[int] = []

    def on_seed_run(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        self.seed_runs.append((task.id, stored))

    def on_score(self, score: ConfigurationScore) -> None:
        self.scores.append(score.number)


def values(prepared: Scheduler) -> list[object]:
    return [configuration.values for configuration in prepared.store.configurations()]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_seed_runs_are_ordered_by_configuration_with_two_configurations_open(
    prepare: Prepare, workers: Workers
) -> None:
    prepared = prepare()
    scheduler = replace(prepared)
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
def test_enough_configurations_are_open_to_keep_every_worker_busy(
    prepare: Prepare, workers: Workers, concurrency: int, seeds: int, expected: int
) -> None:
    prepared = prepare(concurrency=concurrency, seeds=seeds, configs=20, race="off")
    assert prepared.record.open_configurations == expected
    scheduler = replace(prepared)
    for _ in range(2 * concurrency):
        tasks = workers.running(scheduler, concurrency)
        assert len(tasks) == concurrency
        workers.finish(scheduler, tasks[0])


def test_a_search_resumed_with_more_workers_keeps_all_of_them_busy(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare(configs=40, concurrency=2).begin()
    for _ in range(12):
        workers.finish(scheduler, workers.running(scheduler, 2)[0])
    resumed = prepare(configs=40, concurrency=16).begin()
    resumed.widen(16)
    for _ in range(20):
        tasks = workers.running(resumed, 16)
        assert len(tasks) == 16
        workers.finish(resumed, tasks[0])
    again = prepare(configs=40, concurrency=2).begin()
    assert len(workers.running(again, 16)) == 16


def test_proposals_after_a_resume_with_more_workers_use_every_score_used_before(
    prepare: Prepare, workers: Workers
) -> None:
    prepared = prepare(configs=40, concurrency=2).begin()
    scheduler = replace(prepared)
    for _ in range(26):
        workers.finish(scheduler, workers.running(scheduler, 2)[0])
    resumed = prepare(configs=40, concurrency=16).begin()
    resumed.widen(16)
    for _ in range(20):
        workers.finish(resumed, workers.running(resumed, 16)[0])
    state, study = resumed.state, prepared.study
    # 2 configurations were open before, and 9 are open from configuration 14 on.
    assert len(state.configurations) > 22
    for number, configuration in enumerate(state.configurations):
        used = number - 1 if number < 14 else max(12, number - 8)
        known = [
            ObservedConfiguration(
                c.values, state.scores[c.number].score if c.number < used else None
            )
            for c in state.configurations[:number]
        ]
        proposal = propose(study.space, study.sampler, study.search_seed, known)
        assert proposal is not None
        assert proposal[0] == configuration.values


def test_every_proposal_depends_only_on_settled_scores(prepare: Prepare, workers: Workers) -> None:
    prepared = prepare(configs=16, concurrency=4)
    scheduler = replace(prepared)
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


@pytest.mark.parametrize(
    "settings", [{}, {"batch_size": 100, "max_length": 1024}], ids=["default", "chunks"]
)
def test_a_worker_derives_the_same_key_from_the_configurations_json(
    prepare: Prepare, workers: Workers, make_spec: MakeSpec, settings: dict[str, object]
) -> None:
    prepared = prepare(make_spec(settings=settings), configs=5)
    for task in workers.running(replace(prepared)):
        number = task.replicate.number
        fields = json.loads(canonical(task.configuration.fields))
        seed_run_spec = prepared.study.seed_run_spec(fields, number, prepared.splits[number])
        assert task.key == seed_run_spec.key
        assert canonical(task.identity) == canonical(seed_run_spec.identity)
        assert task.key == seed_run_key(prepared.record, task.configuration, task.replicate)


def test_an_exhausted_space_completes_the_study(
    prepare: Prepare, workers: Workers, make_spec: MakeSpec
) -> None:
    prepared = prepare(make_spec(settings={"learning_rate": 1e-3}), configs=None)
    assert prepared.configs == 6
    scheduler = replace(prepared, configs=10)
    workers.run_out(scheduler)
    assert len(scheduler.state.configurations) == 6
    assert scheduler.exhausted
    assert scheduler.complete


def test_predictions_are_in_the_store_but_not_in_the_state(
    prepare: Prepare, workers: Workers
) -> None:
    scheduler = prepare(configs=1, seeds=1)
    (task,) = workers.running(scheduler)
    run = replace(workers.trained(task), predictions={"test": [1.0] * 20})
    scheduler.runs.put(run)
    scheduler.finish(task, run)
    assert scheduler.state.seed_runs[task.id] == replace(run, predictions={})
    assert scheduler.runs.get(task.key) == run


@pytest.mark.parametrize("finished", [1, 23])
def test_a_resumed_search_proposes_the_same_and_trains_only_missing_seed_runs(
    prepare: Prepare, workers: Workers, tmp_path: Path, finished: int
) -> None:
    undisturbed = prepare(configs=14)
    everything = workers.run_out(replace(undisturbed))
    killed = prepare(configs=14, storage=tmp_path / "killed")
    scheduler = replace(killed)
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
    assert values(killed) == values(undisturbed)


def test_a_seed_run_that_finishes_twice_counts_once(prepare: Prepare, workers: Workers) -> None:
    diary = Diary()
    scheduler = replace(prepare(configs=2), callbacks=[diary])
    first, second = workers.running(scheduler, 2)
    for task in (first, second, first):
        workers.finish(scheduler, task)
    assert diary.seed_runs == [(first.id, False), (second.id, False)]
    assert diary.scores == [0]


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


@pytest.mark.parametrize("event", ["on_configuration", "on_seed_run", "on_score"])
def test_an_exception_of_a_callback_names_it_and_loses_no_result(
    prepare: Prepare, workers: Workers, event: str
) -> None:
    class Broken(Callback):
        pass

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no rows")

    setattr(Broken, event, fail)
    with pytest.raises(
        SclsearchError,
        match=rf"^Broken\.{event}: this callback raised ZeroDivisionError: no rows\.",
    ):
        workers.run_out(replace(prepare(configs=1).begin(), callbacks=[Broken()]))
    diary = Diary()
    replace(prepare(configs=1), callbacks=[diary]).refill()
    stored = {"on_configuration": 0, "on_seed_run": 1, "on_score": 2}
    assert len(diary.seed_runs) == stored[event]


def test_a_dry_scheduler_writes_nothing_and_counts_stored_seed_runs(
    prepare: Prepare, workers: Workers, tmp_path: Path
) -> None:
    prepared = prepare(configs=3)
    scheduler = replace(prepared)
    for task in workers.running(scheduler)[:3]:
        workers.finish(scheduler, task)
    scheduler.runs.put(workers.failed(workers.running(scheduler)[0]))
    before = files(tmp_path / "storage")
    dry = replace(prepare(configs=5, retry_failed=True), dry=True)
    dry.refill()
    assert len(dry.state.seed_runs) == 3
    dry = replace(prepare(configs=5), dry=True)
    dry.refill()
    assert len(dry.state.seed_runs) == 4
    assert [c.number for c in dry.state.configurations] == [0, 1, 2, 3]
    assert files(tmp_path / "storage") == before


def test_more_configurations_extend_a_search_and_fewer_delete_nothing(
    prepare: Prepare, workers: Workers, tmp_path: Path
) -> None:
    workers.run_out(prepare(configs=2))
    longer = prepare(configs=5)
    assert workers.run_out(longer) == [(n, r) for n in (2, 3, 4) for r in (0, 1)]
    shorter = prepare(configs=1)
    before = files(tmp_path / "storage")
    assert shorter.next() is None
    assert shorter.complete
    assert len(shorter.state.seed_runs) == 2
    assert files(tmp_path / "storage") == before


def test_more_seeds_train_only_the_new_replicates(prepare: Prepare, workers: Workers) -> None:
    workers.run_out(prepare(configs=3))
    more = prepare(configs=3, seeds=3)
    assert workers.run_out(more) == [(n, 2) for n in range(3)]
    assert more.complete


@pytest.mark.parametrize(
    "changes", [{"rule": "best"}, {"study": "other"}, {"study": "a", "seeds": 1}]
)
def test_another_rule_or_study_reads_the_same_seed_runs(
    prepare: Prepare, workers: Workers, changes: dict[str, object]
) -> None:
    workers.run_out(prepare(configs=3))
    diary = Diary()
    scheduler = replace(prepare(configs=3, **changes), callbacks=[diary])
    assert scheduler.next() is None
    assert scheduler.complete
    assert all(stored for _, stored in diary.seed_runs)
