"""A board that races trains fewer seeds, ends with the same winner and goes on where it stopped."""

import random
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from sclsearch.reports.report import report
from sclsearch.search.board import Board
from sclsearch.search.estimate import estimate
from sclsearch.search.listener import SeedTask
from sclsearch.search.prepare import Prepared
from sclsearch.search.progress import Pace, Progress
from sclsearch.store.runs import Failure, SeedRun

if TYPE_CHECKING:
    from tests.search.conftest import Workers

Preparing = Callable[..., Prepared]

ROWS = 1000
CONFIGS, SEEDS, RISK = 8, 10, 0.05
# The published one is good, the fourth is better.
MEANS = (0.80, 0.60, 0.55, 0.84, 0.70, 0.62, 0.50, 0.66)


def ended(workers: "Workers", task: SeedTask) -> SeedRun:
    """Returns a seed run that is about as good as its configuration."""
    number, seed = task.place
    right = round(ROWS * (MEANS[number] + random.Random(100 * number + seed).gauss(0, 0.01)))
    counts = {"confusion": [[right, ROWS - right], [0, 0]]}
    evaluation = {"epoch": 1.0, "update": 4, "loss": {}, "validation": counts}
    return replace(workers.trained(task), evaluations=(evaluation,), test=counts)


def run_out(
    workers: "Workers", board: Board, at_a_time: int = 2, most: int = 1_000
) -> list[tuple[int, int]]:
    """Finishes what the board hands out, at the most so many; returns their places."""
    places: list[tuple[int, int]] = []
    while len(places) < most and (tasks := workers.running(board, at_a_time)):
        board.runs.put(run := ended(workers, tasks[0]))
        board.finish(tasks[0], run)
        places.append(tasks[0].place)
    return places


def prepared(preparing: Preparing, race: float | None = RISK, **changes: object) -> Prepared:
    return preparing(configs=CONFIGS, seeds=SEEDS, race=race, **changes)


Raced = tuple[Prepared, Board, list[tuple[int, int]]]


@pytest.fixture
def raced(preparing: Preparing, workers: "Workers") -> Raced:
    """Returns a stored study, its board after a race, and the places that were trained."""
    study = prepared(preparing)
    study.begin()
    board = study.board(race=RISK)
    return study, board, run_out(workers, board)


def test_a_race_spares_seeds_and_finds_the_winner_of_all(raced: Raced) -> None:
    study, board, places = raced
    assert board.complete
    assert len(places) == len({*places}) == len(board.done)
    assert board.spared == CONFIGS * SEEDS - len(places) > CONFIGS * SEEDS / 4
    found = report(study.storage, study.store.name)
    assert found.winner is not None
    assert found.winner.number == 3
    assert 0 < found.risk <= RISK
    assert found.notes[0] == (
        f"{len(board.race.waiting)} of 8 configurations lack seeds: the probability that one of "
        f"them would win with all is about {found.risk:.2g}"
    )
    chances = {line.number: line.chance for line in found.configurations if line.score is None}
    assert (chances, found.risk) == board.race.odds()


def test_a_finished_race_is_complete_at_once_when_it_is_started_again(
    preparing: Preparing, raced: Raced
) -> None:
    _, first, _ = raced
    again = prepared(preparing).board(race=RISK)
    again.open_up()
    assert again.complete
    assert again.next() is None
    assert again.race.waiting.keys() == first.race.waiting.keys()


def test_what_a_race_does_not_need_takes_no_time_and_is_counted(
    preparing: Preparing, raced: Raced
) -> None:
    study, first, _ = raced
    board = prepared(preparing).board(race=RISK, dry=True)
    board.open_up()
    assert board.spared == first.spared > 0
    assert estimate(study, board, 1, list).seconds == 0.0
    progress = Progress(Console(file=StringIO()), CONFIGS * SEEDS)
    progress.done, progress.spared = len(first.done), first.spared
    assert f"{len(first.done)}/80 seed runs · {first.spared} spared" in progress.line().plain
    progress.pace = Pace([60.0], [0.0])
    assert progress.left() == 0.0


@pytest.mark.parametrize("most", [1, 9, 23])
def test_a_stopped_race_goes_on_and_trains_nothing_twice(
    preparing: Preparing, workers: "Workers", most: int
) -> None:
    places = run_out(workers, prepared(preparing).board(race=RISK), most=most)
    board = prepared(preparing).board(race=RISK)
    places += run_out(workers, board)
    assert board.complete
    assert len(places) == len({*places}) < CONFIGS * SEEDS


def test_a_smaller_risk_trains_more_and_none_trains_all(
    preparing: Preparing, workers: "Workers"
) -> None:
    counts = [
        len(run_out(workers, prepared(preparing, race).board(race=race)))
        for race in (0.3, 0.0, None)
    ]
    assert all(counts)
    assert sum(counts) == CONFIGS * SEEDS


def test_further_configurations_race_against_those_there_are(
    preparing: Preparing, workers: "Workers"
) -> None:
    few = preparing(configs=4, seeds=SEEDS, race=RISK)
    run_out(workers, few.board(race=RISK))
    board = prepared(preparing).board(race=RISK)
    run_out(workers, board)
    assert board.complete
    assert board.spared
    assert max(board.scores, key=board.scores.__getitem__) == 3


def test_a_proposal_is_told_what_is_expected_of_those_that_wait(raced: Raced) -> None:
    _, board, _ = raced
    told = [known.score for known in board._known()[: CONFIGS - 1]]
    assert told == pytest.approx(MEANS[: CONFIGS - 1], abs=0.02)


def test_all_seeds_of_a_diverged_configuration_need_not_fail(
    preparing: Preparing, workers: "Workers"
) -> None:
    board = prepared(preparing).board(race=0.0)
    failure = Failure("non-finite", "loss ce is nan at update 7")
    while tasks := workers.running(board, 2):
        run = ended(workers, tasks[0])
        if tasks[0].place[0] == 1:
            run = replace(run, evaluations=(), test={}, failure=failure)
        board.runs.put(run)
        board.finish(tasks[0], run)
    assert 2 <= sum(number == 1 for number, _ in board.done) < 5
    assert board.complete


def test_a_race_is_over_with_its_last_seed_run_though_none_is_asked_for_any_more(
    preparing: Preparing, workers: "Workers"
) -> None:
    needed = len(run_out(workers, prepared(preparing).board(race=RISK)))
    for run in [*(study := prepared(preparing)).runs.keys()]:
        (study.runs.folder / f"{run}.json").unlink()  # type: ignore[union-attr]
    board = study.board(race=RISK)
    run_out(workers, board, most=needed)
    board.settle()
    assert board.complete


def test_a_failed_seed_run_of_a_configuration_that_waits_is_not_forgotten(
    preparing: Preparing, workers: "Workers"
) -> None:
    study = prepared(preparing)
    board = study.board()
    while tasks := workers.running(board, 2):
        run = ended(workers, tasks[0])
        if tasks[0].place == (1, 5):
            run = replace(run, evaluations=(), test={}, failure=Failure("worker-lost", "gone"))
        board.runs.put(run)
        board.finish(tasks[0], run)
    again = study.board(race=RISK, retry_failed=True)
    assert run_out(workers, again) == []
    assert again.complete
    (failed,) = (run for run in study.runs.all() if run.failure)
    assert failed.origin["replicate"] == 5
    assert run_out(workers, study.board(retry_failed=True)) == [(1, 5)]
    assert not any(run.failure for run in study.runs.all())


def test_more_configurations_are_open_in_a_race_on_many_workers(preparing: Preparing) -> None:
    assert prepared(preparing, concurrency=64).record.open_configurations == 23
    assert prepared(preparing, None, concurrency=64).record.open_configurations == 8


def test_the_storage_has_nothing_that_a_study_without_a_race_has_not(
    raced: Raced, tmp_path: Path
) -> None:
    study, *_ = raced
    kinds = {path.parent.name for path in (tmp_path / "storage").rglob("*.json")}
    assert kinds == {"runs", study.store.name, "configurations", "replicates"}
