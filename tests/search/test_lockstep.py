"""With lockstep a trial is a block of replicates, and each of them a seed run as ever."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from sclsearch.errors import SclsearchError
from sclsearch.search.again import what_again
from sclsearch.search.options import How, What
from sclsearch.search.plan import plan
from sclsearch.search.prepare import Prepared, prepare_study
from sclsearch.search.rerun import rerun
from sclsearch.search.resolve import resolve
from sclsearch.search.retries import Loss
from sclsearch.search.study import Study
from tests.in_process import in_process

if TYPE_CHECKING:
    from sclsearch.search.run import Finished
    from tests.search.conftest import Place, Workers

Asked = Callable[..., What]
Preparing = Callable[..., Prepared]
Resolved = Callable[..., Study]


def test_a_block_is_handed_out_whole_and_the_last_one_as_far_as_it_goes(
    asked: Asked, preparing: Preparing
) -> None:
    board = preparing(asked(lockstep=2), seeds=5, rule="mean").board()
    blocks = [[task.place for task in board.next_block()] for _ in range(4)]
    assert blocks == [[(0, 0), (0, 1)], [(0, 2), (0, 3)], [(0, 4)], [(1, 0), (1, 1)]]
    assert len(board.running) == 7


def test_what_is_stored_of_a_block_is_not_trained_again(
    asked: Asked, preparing: Preparing, workers: "Workers"
) -> None:
    first = preparing(asked(lockstep=3), seeds=3, configs=1)
    first.begin()
    board = first.board()
    tasks = board.next_block()
    workers.finish(board, tasks[1])
    again = preparing(asked(lockstep=3), seeds=3).board()
    assert [task.place for task in again.next_block()] == [(0, 0), (0, 2)]
    board.lose(tasks[0], Loss("out-of-memory", "a test"))
    board.lose(tasks[2], Loss("out-of-memory", "a test"))
    assert [task.place for task in board.next_block()] == [(0, 0), (0, 2)]


def test_without_lockstep_a_block_is_one_seed_run(preparing: Preparing) -> None:
    board = preparing().board()
    assert [len(board.next_block()) for _ in range(5)] == [1, 1, 1, 1, 0]


def test_the_keys_of_a_study_are_those_of_its_jobs(asked: Asked, preparing: Preparing) -> None:
    prepared = preparing(asked(lockstep=2), seeds=3)
    board = prepared.board()
    for task in board.next_block():
        number = task.replicate.number
        job = prepared.study.job(task.configuration.fields, number, prepared.parts[number])
        assert job.key == task.key
        assert job.identity["lockstep"] == 2
        assert job.identity["seeds"]["seat"] == number  # type: ignore[index]


def test_one_in_lockstep_is_the_key_without(asked: Asked, resolved: Resolved) -> None:
    keys = [resolved(lockstep=size).job({}, 1).key for size in ("auto", 1, 2, 4)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_a_study_that_a_gpu_tells_its_lockstep_is_not_the_one_of_single_seeds(asked: Asked) -> None:
    names = {}
    for gpus in (0, 1):
        study = resolve(asked(), How(gpus_per_trial=gpus))
        names[gpus] = [study.default_name(auto=auto) for auto in (False, True)]
    assert len(set(names[1])) == 2
    assert len(set(names[0])) == 1  # on a CPU it is 1


def test_what_is_open_at_a_time_keeps_the_workers_busy_with_blocks(
    asked: Asked, preparing: Preparing
) -> None:
    prepared = preparing(asked(lockstep=4), seeds=4, concurrency=3)
    assert prepared.record.open_configurations == 4


def test_a_study_keeps_its_lockstep(asked: Asked, preparing: Preparing) -> None:
    first = preparing(asked(lockstep=2), study="mine")
    first.begin()
    assert first.record.training["lockstep"] == 2
    assert preparing(asked(lockstep="auto"), study="mine").study.lockstep == 2
    assert preparing(asked(lockstep=2), study="mine").study.lockstep == 2
    with pytest.raises(SclsearchError, match=r"^--study mine: lockstep must stay 2, but it is 4"):
        preparing(asked(lockstep=4), study="mine")
    with pytest.raises(SclsearchError, match=r"^--study mine: lockstep must stay 2, but it is"):
        preparing(asked(), study="mine")


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto would be measured")
def test_auto_needs_a_gpu_to_measure_or_a_study_that_has_been(
    asked: Asked, preparing: Preparing
) -> None:
    with pytest.raises(SclsearchError, match=r"^--lockstep auto: .* but torch sees none"):
        preparing(asked(lockstep="auto"), gpus_per_trial=1)
    preparing(asked(lockstep=2), study="mine", gpus_per_trial=1).begin()
    again = preparing(asked(lockstep="auto"), study="mine", gpus_per_trial=1)
    assert again.study.lockstep == 2


@pytest.mark.parametrize("dry", [False, True])
def test_auto_is_not_measured_where_seed_runs_share_a_gpu(
    asked: Asked, tmp_path: Path, dry: bool
) -> None:
    how = How(storage=tmp_path, study="mine", seeds=2, concurrency=1, gpus_per_trial=0.25)
    with pytest.raises(
        SclsearchError, match=r"^--lockstep auto: .* but --gpus-per-trial is 0\.25\. Give a number"
    ):
        prepare_study(asked(lockstep="auto"), how, dry=dry)
    prepare_study(asked(lockstep=2), how).begin()
    assert prepare_study(asked(lockstep="auto"), how, dry=dry).study.lockstep == 2


def test_a_dry_run_says_that_auto_is_measured_later(asked: Asked, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    for gpus, told in ((0, False), (1, True)):
        how = How(storage=storage, study="mine", seeds=2, concurrency=1, gpus_per_trial=gpus)
        notes = plan(asked(lockstep="auto"), how).notes
        assert any(note.startswith("--lockstep auto is measured") for note in notes) == told


@pytest.mark.parametrize("lockstep", [{}, {"lockstep": "auto"}], ids=["default", "auto"])
def test_it_is_one_on_a_cpu(asked: Asked, preparing: Preparing, lockstep: dict[str, Any]) -> None:
    prepared = preparing(asked(**lockstep))
    assert prepared.study.lockstep == 1
    assert "lockstep" not in prepared.record.training


def test_no_seed_run_at_a_time_is_an_error(resolved: Resolved) -> None:
    with pytest.raises(SclsearchError, match=r"^--lockstep: it must be at least 1, but it is 0"):
        resolved(lockstep=0)


def test_crossed_seeds_have_noise_of_their_own(
    asked: Asked, preparing: Preparing, resolved: Resolved
) -> None:
    levels = {"initialisation": 2, "order": 2}
    with pytest.raises(SclsearchError, match=r"^--lockstep 2: it must be 1 where seeds are cross"):
        resolved(lockstep=2, crossed=levels)
    crossed = preparing(asked(crossed=levels, lockstep="auto"), seeds=None)
    assert crossed.study.lockstep == 1
    origin = preparing(asked(lockstep=2)).record.origin
    assert what_again(origin, {}, crossed=levels).lockstep == 1


def test_a_configuration_is_confirmed_in_the_lockstep_that_it_had(
    asked: Asked, preparing: Preparing
) -> None:
    prepared = preparing(asked(lockstep=2))
    fields: dict[str, Any] = prepared.study.fields({})
    assert what_again(prepared.record.origin, fields).lockstep == 2
    older = {name: value for name, value in prepared.record.origin.items() if name != "lockstep"}
    assert what_again(older, fields).lockstep == 1


@pytest.fixture(scope="module")
def searched(place: "Place", tmp_path_factory: pytest.TempPathFactory) -> "tuple[Place, Finished]":
    """Returns where two configurations of three seeds were searched, two of these in lockstep."""
    there = place.elsewhere(tmp_path_factory.mktemp("lockstep"), lockstep=2)
    return there, there.run(configs=2, seeds=3)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_search_in_lockstep_is_complete_repeats_and_goes_on(
    searched: "tuple[Place, Finished]", tmp_path: Path
) -> None:
    place, done = searched
    assert (done.ending, done.trained, done.failed) == ("complete", 6, 0)
    for runs in place.seed_runs(done.name).values():
        together = [run and run.origin["together"] for run in runs]
        assert together == [[0, 1], [0, 1], [2]]
    for key in [*place.runs()][:3]:
        again = rerun(place.storage, key)
        assert (again.key, again.same, again.now) == (key, True, None)
    automatic = replace(place, what=replace(place.what, lockstep="auto"))
    with in_process():
        more = automatic.run(configs=2, seeds=4, study=done.name)
    assert (more.ending, more.trained, more.done) == ("complete", 2, 8)
