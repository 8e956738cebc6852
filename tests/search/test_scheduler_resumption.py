"""A scheduler ends as an undisturbed one would, and trains only what is not stored."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sclsearch.search.callbacks import Callback
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.seed_runs import SeedRunTask
from sclsearch.study.state import ConfigurationScore

if TYPE_CHECKING:
    from tests.workspace import Workers

Preparing = Callable[..., PreparedStudy]


class Diary(Callback):
    """Writes down all events."""

    def __init__(self) -> None:
        self.configurations: list[int] = []
        self.seed_runs: list[tuple[tuple[int, int], bool]] = []
        self.scores: list[tuple[int, float]] = []

    def on_configuration(self, configuration: ConfigurationRecord) -> None:
        self.configurations.append(configuration.number)

    def on_seed_run(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        self.seed_runs.append((task.id, stored))

    def on_score(self, score: ConfigurationScore) -> None:
        self.scores.append((score.number, score.score))


def values(prepared: PreparedStudy) -> list[object]:
    return [configuration.values for configuration in prepared.store.configurations()]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_arrival_does_not_change_what_is_proposed(
    preparing: Preparing, workers: "Workers", tmp_path: Path, seed: int
) -> None:
    orderly, other = preparing(configs=14), preparing(configs=14, storage=tmp_path / "other")
    order = workers.run_out(Scheduler(orderly))
    shuffled = workers.run_out(Scheduler(other), at_a_time=4, draw=random.Random(seed))
    assert order != shuffled
    assert sorted(order) == sorted(shuffled)
    assert values(orderly) == values(other)


@pytest.mark.parametrize("finished", [1, 7, 23, 27])
def test_a_resumed_search_proposes_the_same_and_trains_only_what_is_missing(
    preparing: Preparing, workers: "Workers", tmp_path: Path, finished: int
) -> None:
    undisturbed = preparing(configs=14)
    everything = workers.run_out(Scheduler(undisturbed))
    killed = preparing(configs=14, storage=tmp_path / "killed")
    scheduler = Scheduler(killed)
    for _ in range(finished):
        workers.finish(scheduler, workers.running(scheduler, at_a_time=2)[0])
    diary = Diary()
    again = Scheduler(preparing(configs=14, storage=tmp_path / "killed"), callbacks=[diary])
    again.refill()
    stored = [place for place, from_store in diary.seed_runs if from_store]
    assert sorted(stored) == sorted(scheduler.state.seed_runs)
    rest = workers.run_out(again)
    assert again.complete
    assert sorted([*stored, *rest]) == sorted(everything)
    assert values(killed) == values(undisturbed)


def test_listeners_hear_of_every_opening_and_finish_once_and_of_each_score(
    preparing: Preparing, workers: "Workers"
) -> None:
    diary = Diary()
    prepared = preparing(configs=3)
    scheduler = Scheduler(prepared, callbacks=[diary])
    first = workers.running(scheduler, at_a_time=1)[0]
    order = workers.run_out(scheduler)
    assert diary.configurations == [0, 1, 2]
    assert diary.seed_runs == [(place, False) for place in order]
    assert diary.scores == [(number, scheduler.state.scores[number].score) for number in range(3)]
    workers.finish(scheduler, first)
    assert len(diary.seed_runs) == 6


def test_a_dry_board_writes_nothing_and_counts_what_is_stored(
    preparing: Preparing, workers: "Workers", tmp_path: Path
) -> None:
    prepared = preparing(configs=3)
    scheduler = Scheduler(prepared)
    for task in workers.running(scheduler)[:3]:
        workers.finish(scheduler, task)
    scheduler.runs.put(workers.failed(workers.running(scheduler)[0]))
    before = files(tmp_path / "storage")
    dry = Scheduler(preparing(configs=5), dry=True, retry_failed=True)
    dry.refill()
    assert len(dry.state.seed_runs) == 3
    dry = Scheduler(preparing(configs=5), dry=True)
    dry.refill()
    assert len(dry.state.seed_runs) == 4
    assert [c.number for c in dry.state.configurations] == [0, 1, 2, 3]
    assert files(tmp_path / "storage") == before


def test_more_configurations_extend_a_search_and_fewer_delete_nothing(
    preparing: Preparing, workers: "Workers", tmp_path: Path
) -> None:
    workers.run_out(Scheduler(preparing(configs=2)))
    longer = Scheduler(preparing(configs=5))
    assert workers.run_out(longer) == [(n, r) for n in (2, 3, 4) for r in (0, 1)]
    shorter = Scheduler(preparing(configs=1))
    before = files(tmp_path / "storage")
    assert shorter.next() is None
    assert shorter.complete
    assert len(shorter.state.seed_runs) == 2
    assert files(tmp_path / "storage") == before


def test_an_extended_search_proposes_what_a_long_one_does(
    preparing: Preparing, workers: "Workers", tmp_path: Path
) -> None:
    long = preparing(configs=14)
    workers.run_out(Scheduler(long))
    extended = preparing(configs=14, storage=tmp_path / "extended")
    for configs in (3, 12, 14):
        workers.run_out(Scheduler(replace(extended, configs=configs)))
    assert values(extended) == values(long)


def test_more_seeds_train_the_new_replicates_alone(
    preparing: Preparing, workers: "Workers"
) -> None:
    workers.run_out(Scheduler(preparing(configs=3)))
    more = Scheduler(preparing(configs=3, seeds=3))
    assert workers.run_out(more) == [(n, 2) for n in range(3)]
    assert more.complete


@pytest.mark.parametrize(
    "changes", [{"rule": "best"}, {"study": "other"}, {"study": "a", "seeds": 1}]
)
def test_another_rule_or_study_reads_the_same_seed_runs(
    preparing: Preparing, workers: "Workers", changes: dict[str, object]
) -> None:
    workers.run_out(Scheduler(preparing(configs=3)))
    diary = Diary()
    scheduler = Scheduler(preparing(configs=3, **changes), callbacks=[diary])
    assert scheduler.next() is None
    assert scheduler.complete
    assert all(stored for _, stored in diary.seed_runs)
