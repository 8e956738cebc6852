"""Ends of stages stay in the storage while a study runs: whole, few, and of no weight for it."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from sclsearch.search import stages
from sclsearch.search.options import How, What
from sclsearch.search.prepare import Prepared
from sclsearch.search.run import run_prepared
from sclsearch.search.stages import KeptStages, shares_stages
from sclsearch.search.study import Study
from sclsearch.search.trial import attempt, bench_of
from sclsearch.store.studies import StudyStore
from sclsearch.training.shared import StageEnd

Asked = Callable[..., What]
Preparing = Callable[..., Prepared]

SPACE = """
method: tapt
source: a test
published: [{learning_rate: 1e-3}]
fixed: {batch_size: 8, post_batch_size: 8, epochs: 1, post_epochs: 2, max_length: 16}
space:
  learning_rate: {type: choice, values: [1e-3, 1e-2]}
"""
SEARCHED = {
    "fine-tuning alone": ("learning_rate: {type: log, low: 1e-4, high: 1e-2}", True),
    "few values of post-training too": (
        "learning_rate: {type: log, low: 1e-4, high: 1e-2}\n"
        "  p_m: {type: choice, values: [0.1, 0.2]}\n"
        "  post_epochs: {type: int, low: 1, high: 2}",
        True,
    ),
    "a range of post-training": (
        "learning_rate: {type: choice, values: [1e-3, 1e-2]}\n"
        "  post_learning_rate: {type: log, low: 1e-4, high: 1e-2}",
        False,
    ),
    "post-training alone": ("p_m: {type: choice, values: [0.1, 0.2]}", False),
    "one value": ("learning_rate: {type: choice, values: [1e-3]}", False),
}
IDENTITY = {"engine": 0}
END = StageEnd({"model.a": torch.arange(6.0).reshape(2, 3)}, [{"loss": {"mlm": 1 / 3}}], 0.1)
HALF = """
import os, signal, sys, time
from pathlib import Path
from sclsearch.store.studies import StudyStore

def half(file):
    file.write_bytes(Path(sys.argv[3]).read_bytes()[:-4])
    print("half", flush=True)
    time.sleep(600)

StudyStore(sys.argv[1], "mine").keep_stage(sys.argv[2], half)
"""


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return StudyStore(tmp_path, "mine")


@pytest.fixture
def kept(store: StudyStore) -> KeptStages:
    """Returns a shelf with one end of a stage."""
    kept = KeptStages(store, threads=1)
    kept.keep(IDENTITY, END)
    return kept


@pytest.fixture
def file(kept: KeptStages, tmp_path: Path) -> Path:
    """Returns the file of that end."""
    (file,) = (tmp_path / "studies" / "mine" / "stages").iterdir()
    return file


@pytest.fixture
def tapt(asked: Asked, preparing: Preparing, write_space: Callable[[str], Path]) -> Prepared:
    """Returns a study of two configurations that differ in fine-tuning alone."""
    what = asked(method="tapt", space=write_space(SPACE), sampler="grid")
    return preparing(what, study="mine", configs=2, seeds=1)


def same(one: StageEnd | None, other: StageEnd) -> bool:
    assert one is not None
    assert one.weights.keys() == other.weights.keys()
    equal = all(torch.equal(tensor, other.weights[name]) for name, tensor in one.weights.items())
    return equal and (one.notes, one.seconds) == (other.notes, other.seconds)


@pytest.mark.parametrize(("space", "shares"), SEARCHED.values(), ids=SEARCHED)
def test_stages_are_kept_where_configurations_will_share_them(
    resolved: Callable[..., Study],
    write_space: Callable[[str], Path],
    space: str,
    shares: bool,
) -> None:
    head = SPACE.replace("[{learning_rate: 1e-3}]", "[]").partition("  learning_rate")[0]
    fixed = head.replace("post_epochs: 2, ", "") if "post_epochs" in space else head
    study = resolved(method="tapt", space=write_space(f"{fixed}  {space}\n"))
    assert shares_stages(study, study.parts(0)) == shares


@pytest.mark.parametrize("method", ["scl", "tapt"])
def test_one_configuration_and_a_method_without_such_a_stage_keep_none(
    resolved: Callable[..., Study], method: str
) -> None:
    changes: dict[str, Any] = {"space": None, "searched": False} if method == "tapt" else {}
    study = resolved(method=method, **changes)
    assert not shares_stages(study, study.parts(0))


def test_two_configurations_train_their_first_stage_once_with_the_same_figures_and_keys(
    tapt: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = tapt.board(dry=True)
    board.open_up()
    bench = bench_of(tapt, threads=1)
    assert bench.shares
    taken: list[bool] = []
    take = KeptStages.take

    def noted(self: KeptStages, identity: Any) -> StageEnd | None:
        found = take(self, identity)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(KeptStages, "take", noted)
    found = {}
    for shares in (True, False):
        found[shares] = [
            run
            for task in board.waiting.values()
            for run, _ in attempt(
                [tapt.study.job(task.configuration.fields, 0, tapt.parts[0])],
                replace(bench, shares=shares),
                task.configuration.number,
            )
        ]
    assert taken == [False, True]
    assert [run.key for run in found[True]] == [task.key for task in board.waiting.values()]
    assert all(run.failure is None and run.stages for run in found[True])
    for shared, alone in zip(found[True], found[False], strict=True):
        for name in ("stages", "evaluations", "kept", "test", "predictions", "identity"):
            assert getattr(shared, name) == getattr(alone, name)


def test_a_complete_study_keeps_none(tapt: Prepared) -> None:
    tapt.begin()
    board = tapt.board()
    board.open_up()
    bench = bench_of(tapt, threads=1)
    for number, task in enumerate(list(board.waiting.values())):
        job = tapt.study.job(task.configuration.fields, 0, tapt.parts[0])
        ((run, _),) = attempt([job], bench, number)
        tapt.runs.put(run)
    assert len(tapt.store.kept_stages()) == 1
    how = How(storage=tapt.storage, tracking="none", gpus_per_trial=0)
    assert run_prepared(tapt, how, Console(quiet=True)).ending == "complete"
    assert isinstance(tapt.store.folder, Path)
    assert not (tapt.store.folder / "stages").exists()


def test_what_is_kept_comes_back_to_the_bit(kept: KeptStages) -> None:
    assert same(kept.take(IDENTITY), END)
    assert kept.take({"engine": 1}) is None


@pytest.mark.slow
def test_an_object_store_keeps_it_too(bucket: str) -> None:
    kept = KeptStages(StudyStore(bucket, "mine"), threads=1)
    kept.keep(IDENTITY, END)
    assert same(kept.take(IDENTITY), END)
    kept.store.drop_stages()
    assert kept.take(IDENTITY) is None


def test_other_threads_train_a_stage_of_their_own(kept: KeptStages) -> None:
    assert KeptStages(kept.store, threads=2).take(IDENTITY) is None


def test_a_worker_killed_while_it_writes_leaves_nothing_that_is_read(
    kept: KeptStages, file: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    file.rename(whole)
    command = [sys.executable, "-c", HALF, str(tmp_path), file.stem, str(whole)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "half\n"
        os.kill(worker.pid, signal.SIGKILL)
    assert len(list(file.parent.iterdir())) == 1
    assert kept.store.kept_stages() == set()
    assert kept.take(IDENTITY) is None
    kept.keep(IDENTITY, END)
    assert same(kept.take(IDENTITY), END)
    kept.store.drop_stages()
    assert not file.parent.exists()


@pytest.mark.parametrize("left", [0, 4, 40, -4])
def test_a_file_that_is_not_whole_is_not_taken(
    kept: KeptStages, file: Path, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(file.read_bytes()[:left])
    with caplog.at_level(logging.WARNING):
        assert kept.take(IDENTITY) is None
    assert "it is trained, since it cannot be read" in caplog.text
    kept.keep(IDENTITY, END)
    assert same(kept.take(IDENTITY), END)


def test_a_storage_that_fails_costs_time_alone(
    store: StudyStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "studies").write_text("no folder")
    with caplog.at_level(logging.WARNING):
        kept = KeptStages(store, threads=1)
        kept.keep(IDENTITY, END)
        assert kept.take(IDENTITY) is None
    assert "it cannot be kept" in caplog.text


def test_no_more_than_some_are_kept(kept: KeptStages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST", 2)
    for engine in (1, 2):
        kept.keep({"engine": engine}, END)
    found = [kept.take({"engine": engine}) is not None for engine in range(3)]
    assert found == [True, True, False]
