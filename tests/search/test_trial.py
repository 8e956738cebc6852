"""What a worker stores of a block of which not all seed runs come to an end."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sclsearch.canonical import canonical
from sclsearch.search.options import What
from sclsearch.search.prepare import Prepared
from sclsearch.search.rerun import rerun
from sclsearch.search.trial import attempt, bench_of, seed_run_trial
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.training.lockstep import Lockstep

Asked = Callable[..., What]
Preparing = Callable[..., Prepared]


@pytest.fixture
def block(asked: Asked, preparing: Preparing) -> Prepared:
    """Returns a study of one configuration and a block of two short seed runs."""
    settings = {"epochs": 1, "max_length": 16}
    prepared = preparing(asked(lockstep=2, settings=settings), configs=1, seeds=2)
    prepared.begin()
    return prepared


@pytest.fixture
def update_raises(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception, int], None]:
    """Returns what makes every update raise that the seed run of a seat is part of."""
    update = Lockstep.update

    def update_raises(error: Exception, seat: int) -> None:
        def limited(self: Lockstep, *given: Any) -> Any:
            if seat in self.seats.taken:
                raise error
            return update(self, *given)

        monkeypatch.setattr(Lockstep, "update", limited)

    return update_raises


def trial(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """Trains what is missing of the block; returns what is reported and what is stored."""
    reports: list[Any] = []
    monkeypatch.setattr("ray.tune.report", reports.append)
    tasks = prepared.board().next_block()
    config = {
        "configuration": 0,
        "replicates": [task.replicate.number for task in tasks],
        "fields": canonical(tasks[0].configuration.fields),
        "deadline": time.time() + 3600,
    }
    seed_run_trial(config, bench_of(prepared, threads=1))
    return reports, [prepared.runs.get(task.key) for task in tasks]


def test_what_is_finished_of_a_block_is_stored_though_another_runs_out_of_memory(
    block: Prepared,
    update_raises: Callable[[Exception, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update_raises(torch.OutOfMemoryError("a test has no more"), 0)
    (report,), (first, second) = trial(block, monkeypatch)
    assert "a test has no more" in report["out_of_memory"]
    assert first is None
    assert isinstance(second, SeedRun)
    assert second.failure is None
    assert len(block.store.kept_weights()) == 1


def test_a_seed_run_is_trained_again_with_those_that_it_was_trained_with(
    block: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, ...]] = []
    update, most = Lockstep.update, 1

    def limited(self: Lockstep, *given: Any) -> Any:
        if len(self.learners) > most:
            raise torch.OutOfMemoryError("a test has no more")
        made.append(self.seats.taken)
        return update(self, *given)

    monkeypatch.setattr(Lockstep, "update", limited)
    _, found = trial(block, monkeypatch)
    assert [run.origin["together"] for run in found] == [[0], [1]]
    made.clear()
    most = 2
    assert rerun(block.storage, found[1].key).same
    assert {*made} == {(1,)}


def test_a_seed_run_that_failed_is_trained_again_with_those_too(
    block: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    burning = torch.tensor(torch.nan)
    monkeypatch.setattr("sclsearch.methods.scl.sup_con", lambda *_, **__: burning)
    _, found = trial(block, monkeypatch)
    assert [run.failure.cause for run in found] == ["non-finite"] * 2
    assert [run.origin["together"] for run in found] == [[0, 1]] * 2


def test_those_that_were_trained_one_by_one_were_not_trained_together(
    block: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.training.lockstep.LIMIT", 1)
    _, found = trial(block, monkeypatch)
    for run in found:
        assert run.notes[-1].startswith("lockstep: trained one by one")
        assert "together" not in run.origin


def test_a_fault_of_the_machine_is_raised_and_fails_no_seed_run(
    block: Prepared,
    update_raises: Callable[[Exception, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update_raises(OSError(116, "Stale file handle"), 0)
    with pytest.raises(OSError, match=r"Stale file handle"):
        trial(block, monkeypatch)
    assert [*block.runs.get_all(task.key for task in block.board().next_block())] == [None, None]


def test_what_all_of_a_block_raise_fails_each_and_is_said_with_its_place(
    block: Prepared, update_raises: Callable[[Exception, int], None]
) -> None:
    update_raises(KeyError("head"), 0)
    jobs = [block.study.job({}, number, block.parts[number]) for number in range(2)]
    found = [*attempt(jobs, bench_of(block, threads=1), 0, (0, 1))]
    assert [run.key for run, _ in found] == [job.key for job in jobs]
    for run, outcome in found:
        assert outcome is None
        assert run.failure is not None
        assert run.failure.cause == "raised"
        assert run.failure.message.startswith("KeyError: 'head' (test_trial.py:")


def test_figures_are_stored_though_the_weights_cannot_be(
    block: Prepared, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StudyStore, "keep_weights", full)
    (report,), found = trial(block, monkeypatch)
    assert not report["out_of_memory"]
    assert [run.failure for run in found] == [None, None]
    assert caplog.text.count("its weights cannot be kept: [Errno 28] No space left") == 2
