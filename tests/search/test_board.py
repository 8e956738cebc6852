"""The board hands out what is missing, in one order, and knows what a lost seed run means."""

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.canonical import canonical
from sclsearch.search.board import RETRIES, Board, SeedTask
from sclsearch.search.options import What
from sclsearch.search.prepare import Prepared
from sclsearch.search.proposals import Known, propose
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.store.studies import ConfigurationRecord, seed_run_key

Preparing = Callable[..., Prepared]
Asked = Callable[..., What]
Place = tuple[int, int]


class Diary:
    """Writes down what a listener is told."""

    def __init__(self) -> None:
        self.opened_ones: list[int] = []
        self.finished_ones: list[tuple[Place, bool]] = []
        self.scores: list[tuple[int, float]] = []

    def opened(self, configuration: ConfigurationRecord) -> None:
        self.opened_ones.append(configuration.number)

    def finished(self, task: SeedTask, run: SeedRun, *, stored: bool) -> None:
        self.finished_ones.append((task.place, stored))

    def scored(self, configuration: ConfigurationRecord, score: float) -> None:
        self.scores.append((configuration.number, score))


def trained(task: SeedTask) -> SeedRun:
    """A seed run that gets as many of 20 rows right as its key says."""
    right = int(task.key[:8], 16) % 20
    counts = {"confusion": [[right, 20 - right], [0, 0]]}
    evaluation = {"epoch": 1.0, "update": 4, "loss": {}, "validation": counts}
    return SeedRun(
        key=task.key,
        identity=task.identity,
        origin={"replicate": task.replicate.number},
        evaluations=(evaluation,),
        test=counts,
    )


def failed(task: SeedTask) -> SeedRun:
    return replace(trained(task), evaluations=(), test={}, failure=Failure("raised", "a test"))


def finish(board: Board, task: SeedTask) -> None:
    """Does what a worker and the searcher do."""
    board.runs.put(trained(task))
    run = board.runs.get(task.key)
    assert run is not None
    board.finish(task, run)


def running(board: Board, at_a_time: int = 1_000) -> list[SeedTask]:
    """Takes as many seed runs as there are and returns all that run."""
    while len(board.running) < at_a_time and board.next():
        pass
    return list(board.running.values())


def run_out(board: Board, at_a_time: int = 2, draw: random.Random | None = None) -> list[Place]:
    """Finishes everything, in any order if there is a draw; returns the order."""
    order = []
    while tasks := running(board, at_a_time):
        task = draw.choice(tasks) if draw else tasks[0]
        finish(board, task)
        order.append(task.place)
    return order


def values(prepared: Prepared) -> list[object]:
    return [configuration.values for configuration in prepared.store.configurations()]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_seed_runs_come_configuration_by_configuration_and_two_of_these_are_open(
    preparing: Preparing,
) -> None:
    prepared = preparing()
    board = prepared.board()
    assert prepared.record.open_configurations == 2
    first = running(board)
    assert [task.place for task in first] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for task in first[2:]:
        finish(board, task)
    assert board.next() is None
    finish(board, first[0])
    assert board.next() is None
    finish(board, first[1])
    assert [task.place for task in running(board)] == [(2, 0), (2, 1), (3, 0), (3, 1)]


@pytest.mark.parametrize(
    ("concurrency", "seeds", "expected"), [(1, 2, 2), (2, 2, 2), (3, 2, 3), (8, 2, 5), (8, 5, 3)]
)
def test_enough_are_open_to_keep_every_worker_busy_while_seed_runs_end_in_order(
    preparing: Preparing, concurrency: int, seeds: int, expected: int
) -> None:
    prepared = preparing(concurrency=concurrency, seeds=seeds, configs=20)
    assert prepared.record.open_configurations == expected
    board = prepared.board()
    for _ in range(2 * concurrency):
        tasks = running(board, concurrency)
        assert len(tasks) == concurrency
        finish(board, tasks[0])


def test_how_many_are_open_stays_as_the_study_was_created(preparing: Preparing) -> None:
    prepared = preparing(concurrency=8)
    prepared.store.create(prepared.record)
    assert preparing(concurrency=2).record.open_configurations == 5


def test_every_proposal_follows_from_the_settled_scores_alone(preparing: Preparing) -> None:
    prepared = preparing(configs=16, concurrency=4)
    board = prepared.board()
    run_out(board, at_a_time=4)
    assert board.complete
    window = prepared.record.open_configurations
    study = prepared.study
    for number in range(16):
        known = [
            Known(c.values, board.score(c.number) if c.number <= number - window else None)
            for c in board.configurations[:number]
        ]
        again = propose(study.space, study.sampler, study.search_seed, known)
        assert again is not None
        assert again[0] == board.configurations[number].values


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_arrival_does_not_change_what_is_proposed(
    preparing: Preparing, tmp_path: Path, seed: int
) -> None:
    orderly, other = preparing(configs=14), preparing(configs=14, storage=tmp_path / "other")
    order = run_out(orderly.board())
    shuffled = run_out(other.board(), at_a_time=4, draw=random.Random(seed))
    assert order != shuffled
    assert sorted(order) == sorted(shuffled)
    assert values(orderly) == values(other)


@pytest.mark.parametrize("finished", [1, 7, 23, 27])
def test_a_resumed_search_proposes_the_same_and_trains_only_what_is_missing(
    preparing: Preparing, tmp_path: Path, finished: int
) -> None:
    undisturbed = preparing(configs=14)
    everything = run_out(undisturbed.board())
    killed = preparing(configs=14, storage=tmp_path / "killed")
    board = killed.board()
    for _ in range(finished):
        finish(board, running(board, at_a_time=2)[0])
    diary = Diary()
    again = preparing(configs=14, storage=tmp_path / "killed").board(listeners=[diary])
    again.open_up()
    stored = [place for place, from_store in diary.finished_ones if from_store]
    assert sorted(stored) == sorted(board.done)
    rest = run_out(again)
    assert again.complete
    assert sorted([*stored, *rest]) == sorted(everything)
    assert values(killed) == values(undisturbed)


def test_a_configuration_is_stored_before_its_first_seed_run_starts(preparing: Preparing) -> None:
    prepared = preparing()
    assert prepared.store.configurations() == []
    prepared.board().next()
    stored = prepared.store.configurations()
    assert [configuration.number for configuration in stored] == [0, 1]
    assert stored[0].origin == "published"
    assert stored[0].values == {"tau": 0.3, "lam": 0.9, "learning_rate": 1e-2}
    assert stored[0].fields["epochs"] == 8
    assert stored[1].origin == "sampled"


def test_listeners_hear_of_every_opening_and_finish_once_and_of_each_score(
    preparing: Preparing,
) -> None:
    diary = Diary()
    prepared = preparing(configs=3)
    board = prepared.board(listeners=[diary])
    first = running(board, at_a_time=1)[0]
    order = run_out(board)
    assert diary.opened_ones == [0, 1, 2]
    assert diary.finished_ones == [(place, False) for place in order]
    assert diary.scores == [(number, board.score(number)) for number in range(3)]
    finish(board, first)
    assert len(diary.finished_ones) == 6


def test_a_key_names_the_job_that_a_worker_makes_of_the_configurations_json(
    preparing: Preparing,
) -> None:
    prepared = preparing(configs=5)
    for task in running(prepared.board()):
        number = task.replicate.number
        fields = json.loads(canonical(task.configuration.fields))
        job = prepared.study.job(fields, number, prepared.parts[number])
        assert task.key == job.key
        assert canonical(task.identity) == canonical(job.identity)
        assert task.key == seed_run_key(prepared.record, task.configuration, task.replicate)


@pytest.mark.parametrize(
    ("cause", "retries"), [("hang", 1), ("out-of-memory", 1), ("worker-lost", 4)]
)
def test_a_lost_seed_run_is_tried_again_and_then_fails_for_good(
    preparing: Preparing, cause: str, retries: int
) -> None:
    board = preparing().board()
    task = board.next()
    assert task is not None
    for _ in range(retries):
        board.lose(task, cause, "seen")
        assert board.runs.get(task.key) is None
        assert board.next() == task
    board.lose(task, cause, "seen")
    stored = board.runs.get(task.key)
    assert stored is not None
    assert stored.failure == Failure(cause, "seen")
    assert (stored.origin["configuration"], stored.origin["replicate"]) == task.place
    assert board.done[task.place] == stored
    following = board.next()
    assert following is not None
    assert following.place == (0, 1)


def test_a_lost_node_is_never_the_seed_runs_fault(preparing: Preparing) -> None:
    assert RETRIES["node-lost"] == math.inf
    board = preparing().board()
    first = board.next()
    for _ in range(20):
        assert first is not None
        board.lose(first, "node-lost", "seen")
        assert board.next() == first


def test_causes_are_counted_apart_and_for_each_seed_run_apart(preparing: Preparing) -> None:
    board = preparing().board()
    for cause in ("hang", "out-of-memory", "worker-lost"):
        first, second = running(board, at_a_time=2)
        board.lose(first, cause, "seen")
        board.lose(second, cause, "seen")
    assert board.done == {}


def test_a_run_that_another_study_stored_meanwhile_counts_and_not_the_loss(
    preparing: Preparing,
) -> None:
    board = preparing().board()
    task = board.next()
    assert task is not None
    board.lose(task, "hang", "seen")
    board.runs.put(trained(task))
    board.lose(task, "hang", "seen")
    assert board.done[task.place].failure is None


@pytest.mark.parametrize(("metric", "minimum"), [("accuracy", 0.0), ("mcc", -1.0)])
def test_a_failed_seed_counts_as_the_metrics_minimum(
    preparing: Preparing, asked: Asked, metric: str, minimum: float
) -> None:
    what = asked()
    assert not isinstance(what.task, str)
    board = preparing(replace(what, task=replace(what.task, metric=metric))).board()
    good, bad = running(board, at_a_time=2)
    finish(board, good)
    assert board.score(0) is None
    board.finish(bad, failed(bad))
    figure = board.validation(board.done[good.place])
    assert figure is not None
    assert board.score(0) == (figure + minimum) / 2


def test_failed_seed_runs_stay_failed_until_they_shall_be_retried(preparing: Preparing) -> None:
    board = preparing(configs=1).board()
    good, bad = running(board)
    finish(board, good)
    board.runs.put(failed(bad))
    same = preparing(configs=1).board()
    assert running(same) == []
    assert same.complete
    again = preparing(configs=1).board(retry_failed=True)
    assert running(again) == [bad]
    finish(again, bad)
    assert again.complete
    aside = again.runs.folder / "retried"
    assert [path.stem.partition("-")[0] for path in aside.iterdir()] == [bad.key]
    assert running(preparing(configs=1).board(retry_failed=True)) == []


def test_a_dry_board_writes_nothing_and_counts_what_is_stored(preparing: Preparing) -> None:
    prepared = preparing(configs=3)
    board = prepared.board()
    for task in running(board)[:3]:
        finish(board, task)
    board.runs.put(failed(running(board)[0]))
    before = files(prepared.store.folder.parent.parent)
    dry = preparing(configs=5).board(dry=True, retry_failed=True)
    dry.open_up()
    assert len(dry.done) == 4
    assert [c.number for c in dry.configurations] == [0, 1, 2, 3]
    assert files(prepared.store.folder.parent.parent) == before


def test_a_space_that_is_used_up_completes_the_study(preparing: Preparing, asked: Asked) -> None:
    prepared = preparing(asked(settings={"learning_rate": 1e-3}), configs=None)
    assert prepared.configs == 6
    board = replace(prepared, configs=10).board()
    run_out(board)
    assert len(board.configurations) == 6
    assert board.exhausted
    assert board.complete


def test_more_configurations_extend_a_search_and_fewer_delete_nothing(preparing: Preparing) -> None:
    run_out(preparing(configs=2).board())
    longer = preparing(configs=5).board()
    assert run_out(longer) == [(n, r) for n in (2, 3, 4) for r in (0, 1)]
    shorter = preparing(configs=1).board()
    before = files(longer.store.folder.parent.parent)
    assert shorter.next() is None
    assert shorter.complete
    assert len(shorter.done) == 2
    assert files(longer.store.folder.parent.parent) == before


def test_an_extended_search_proposes_what_a_long_one_does(
    preparing: Preparing, tmp_path: Path
) -> None:
    long = preparing(configs=14)
    run_out(long.board())
    extended = preparing(configs=14, storage=tmp_path / "extended")
    for configs in (3, 12, 14):
        run_out(replace(extended, configs=configs).board())
    assert values(extended) == values(long)


def test_more_seeds_train_the_new_replicates_alone(preparing: Preparing) -> None:
    run_out(preparing(configs=3).board())
    more = preparing(configs=3, seeds=3).board()
    assert run_out(more) == [(n, 2) for n in range(3)]
    assert more.complete


@pytest.mark.parametrize(
    "changes", [{"rule": "best"}, {"study": "other"}, {"study": "a", "seeds": 1}]
)
def test_another_rule_or_study_reads_the_same_seed_runs(
    preparing: Preparing, changes: dict[str, object]
) -> None:
    run_out(preparing(configs=3).board())
    diary = Diary()
    board = preparing(configs=3, **changes).board(listeners=[diary])
    assert board.next() is None
    assert board.complete
    assert all(stored for _, stored in diary.finished_ones)


def test_the_rule_decides_what_seeds_are_worth(preparing: Preparing) -> None:
    boards = {rule: preparing(configs=2, rule=rule).board() for rule in ("mean", "best")}
    run_out(boards["mean"])
    assert running(boards["best"]) == []
    figures = defaultdict(list)
    for (number, _), run in boards["mean"].done.items():
        figures[number].append(boards["mean"].validation(run) or 0.0)
    for number in range(2):
        assert boards["mean"].score(number) == sum(figures[number]) / 2
        assert boards["best"].score(number) == max(figures[number])
