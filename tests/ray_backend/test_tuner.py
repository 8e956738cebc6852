"""Tests of whole searches with Ray: results, reruns, failures, signals and an object store."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from safetensors.torch import load

from sclsearch.errors import SclsearchError
from sclsearch.exports.export import describe_winner
from sclsearch.ray_backend.worker import BrokenStorageError
from sclsearch.reports.report import report
from sclsearch.search.run import rerun, run
from sclsearch.search.scheduler import Scheduler
from sclsearch.store import lock as locks
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.store.storage import StoragePath, storage_path
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.conftest import Call
from tests.processes import PATIENCE, Processes, wait_for
from tests.studies import MakeSpec, in_process, stored

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
FAILING_SPACE = """
method: Smoothed
source: a test
published:
  - {smoothing: 0.3, epochs: 2}
  - {smoothing: 1.0, epochs: 2}
  - {smoothing: 0.9, epochs: 2}
  - {smoothing: 0.3, epochs: 100000}
fixed: {max_length: 16, learning_rate: 1e-3}
space:
  smoothing: {type: choice, values: [0.3, 0.9, 1.0]}
  epochs: {type: choice, values: [2, 100000]}
"""
"""The second configuration has a loss that is not finite, one raises an error, one never ends."""
FAILING_LOSS = """        if self.smoothing == 0.9:
            raise RuntimeError("no smoothing of 0.9")
        scores = self.scores(model, batch) / (1 - self.smoothing)
"""


@dataclass(frozen=True)
class Workspace:
    """Storage folder and spec of a search, which tests run and resume."""

    storage: Path
    spec: StudySpec

    def run(self, **changes: Any) -> Scheduler:
        usual = {"storage": self.storage, "seeds": 2, "concurrency": 1, "gpus_per_trial": 0}
        return run(self.spec, RunOptions(**{**usual, **changes}), Console(quiet=True))

    def elsewhere(self, folder: Path, **changes: Any) -> "Workspace":
        return Workspace(folder / "storage", replace(self.spec, **changes))

    def seed_runs(self, name: str) -> dict[int, list[SeedRun | None]]:
        """Return the stored seed runs of each configuration."""
        lines, store = report(self.storage, name).configurations, RunStore(self.storage)
        return {line.number: [store.get(seed.key) for seed in line.seeds] for line in lines}


@pytest.fixture(scope="module")
def workspace(
    make_spec: MakeSpec, toy: CustomTask, tmp_path_factory: pytest.TempPathFactory
) -> Workspace:
    """Return a workspace for `scl` on a copy of the toy task."""
    folder = tmp_path_factory.mktemp("search")
    path = shutil.copyfile(toy.path, folder / "toy.csv")
    return Workspace(folder / "storage", make_spec(task=replace(toy, path=path)))


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run work in a thread; after the body set the event and wait for the thread."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=[over], daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_search_that_loses_a_worker_stores_all_results_and_reruns_are_bit_identical(
    workspace: Workspace, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = list[int]()

    def kill(over: threading.Event) -> None:
        while not killed and not over.wait(0.05):
            killed.extend(processes.named("ray::ImplicitFunc.train")[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    for name, value in processes.environment.items():
        monkeypatch.setenv(name, value)
    handlers = [signal.getsignal(each) for each in SIGNALS]
    with beside(kill):
        result = workspace.run(configs=2)
    assert [signal.getsignal(each) for each in SIGNALS] == handlers
    assert len(killed) == 1
    assert [cause for _, cause in worker_failures(result)] == ["worker-lost"]
    assert (result.ending, result.wanted, result.done) == ("complete", 4, 4)
    assert (result.trained, result.failed, result.tracking) == (4, 0, None)
    seed_runs = {
        (number, replicate): one
        for number, runs in workspace.seed_runs(result.name).items()
        for replicate, one in enumerate(runs)
    }
    assert sorted(seed_runs) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for place, one in seed_runs.items():
        assert one is not None
        assert (one.origin["configuration"], one.origin["replicate"]) == place
        assert {"validation", "test"} == {*one.predictions}
        assert (one.environment["threads"], one.environment["gpus"]) == (1, 0.0)
    best = describe_winner(report(workspace.storage, result.name))
    weights = (workspace.storage / "studies" / result.name / "weights").glob("*.safetensors")
    assert [file.stem for file in weights] == [best.key]
    for key in stored(workspace.storage):
        again = rerun(workspace.storage, key[:10])
        assert (again.key, again.same, again.now) == (key, True, None)
    before = stored(workspace.storage)
    assert workspace.run(configs=2).trained == 0
    assert stored(workspace.storage) == before


def worker_failures(search: Scheduler) -> list[tuple[int, str]]:
    """Return the configuration and the cause of each worker failure of a search."""
    found = search.worker_failures._failures.items()
    return [(number, one.cause) for (number, _), each in found for one in each]


def failures(workspace: Workspace, study: str) -> dict[int, Failure]:
    """Return the failures of a study of one seed by configuration."""
    runs = workspace.seed_runs(study).items()
    found = {number: one for number, each in runs for one in each}
    return {n: one.failure for n, one in found.items() if one is not None and one.failure}


def test_a_seed_run_that_raises_hangs_or_is_not_finite_fails_and_the_search_continues(
    workspace: Workspace, own_methods: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    original = "        scores = self.scores(model, batch)\n"
    file.write_text(own_methods["mine.py"].replace(original, FAILING_LOSS), encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(FAILING_SPACE, encoding="utf-8")
    here = workspace.elsewhere(tmp_path, method=f"{file}:Smoothed", space=tmp_path / "mine.yaml")
    with in_process():
        result = here.run(configs=3, seeds=1, study="trouble", tracking="none")
    assert (result.ending, result.trained, result.failed) == ("complete", 3, 2)
    found = {line.number: line for line in report(here.storage, "trouble").configurations}
    assert found[1].score == found[2].score == 0.0
    assert (found[0].score or 0) > 0
    result = here.run(configs=4, seeds=1, study="trouble", tracking="none", trial_timeout=3)
    assert (result.ending, result.trained, result.failed) == ("complete", 1, 3)
    assert worker_failures(result) == [(3, "hang")] * 2
    found_failures = failures(here, "trouble")
    causes = {number: failure.cause for number, failure in found_failures.items()}
    assert causes == {1: "non-finite", 2: "raised"}  # a hang is final in its search alone
    assert "fine-tuning: loss term ce is " in found_failures[1].message
    assert "no smoothing of 0.9 (mine.py:" in found_failures[2].message


def test_a_driver_that_loses_its_study_to_another_driver_ends(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.05)
    workspace = workspace.elsewhere(tmp_path)

    def take(over: threading.Event) -> None:
        while not over.wait(locks.BEAT_SECONDS):
            if stored(workspace.storage):
                for beat in (workspace.storage / "studies" / "mine").glob("driver-*.json"):
                    beat.unlink(missing_ok=True)  # the driver may be writing one of them

    with beside(take), pytest.raises(SclsearchError, match=r"^mine: this driver stalled"):
        workspace.run(configs=16, seeds=8, tracking="none", study="mine")
    assert len(stored(workspace.storage)) < 128


def test_a_worker_that_rays_memory_monitor_kills_does_not_end_the_search(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "4000")
    workspace = workspace.elsewhere(tmp_path, settings={"epochs": 100_000})
    result = workspace.run(configs=1, seeds=1, study="memory", tracking="none")
    assert (result.ending, result.done, result.failed) == ("complete", 1, 1)
    assert worker_failures(result) == [(0, "worker-lost")] * 5
    (failure,) = (run.failure for run in result.state.seed_runs.values())
    assert failure is not None
    assert failure.cause == "worker-lost"
    assert "killed due to the node running low on memory" in failure.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ESTALE])
def test_an_error_of_the_storage_or_the_tracking_server_is_not_a_failure_of_the_seed_run(
    workspace: Workspace, tmp_path: Path, number: int
) -> None:
    def broken(target: Path, _value: Any) -> bool:
        raise OSError(number, os.strerror(number), str(target))

    here = workspace.elsewhere(tmp_path)
    with in_process():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sclsearch.store.runs.create", broken)
            with pytest.raises(BrokenStorageError, match=os.strerror(number)):
                here.run(configs=1, seeds=1, study="full", tracking="none")
        assert stored(here.storage) == {}
        result = here.run(configs=1, seeds=1, study="full", tracking="http://127.0.0.1:9")
    assert (result.ending, result.done, result.failed) == ("complete", 1, 0)
    assert (result.tracking or "").startswith("http://127.0.0.1:9: ")
    baselines = report(here.storage, result.name).baselines
    assert [line.origin for line in baselines if line.score] == [MAJORITY, LOGISTIC]


@pytest.fixture
def tune(toy: CustomTask, tiny_bert: Path, space_file: Path) -> list[str]:
    """Return the arguments of a search with two seeds per configuration."""
    return [
        *("tune", "--method", "scl", "--task", str(toy.path), "--text", "text", "--label", "label"),
        *("--split-column", "split", "--model", str(tiny_bert), "--space", str(space_file)),
        *("--seeds", "2", "--gpus-per-trial", "0", "--study", "s"),
    ]


def test_a_second_driver_is_refused_and_sigterm_ends_the_first_in_order(
    tune: list[str], processes: Processes, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "sclsearch", *tune, "--configs=1", "--concurrency=2"]
    command += [f"--storage={tmp_path / 'storage'}", "--tracking=none", "--set=epochs=100000"]
    environment = {**os.environ, **processes.environment}
    piped: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    start = partial(
        subprocess.Popen[str], command, **piped, text=True, env=environment, start_new_session=True
    )
    first = start()
    wait_for("a trial", lambda: processes.named("ray::ImplicitFunc.train"))
    second = start()
    _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert f"s: process {first.pid} on" in err

    begun = time.monotonic()
    os.killpg(first.pid, signal.SIGTERM)  # `timeout` and Slurm signal the group
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130, err
    assert time.monotonic() - begun < 60
    assert "Traceback" not in err
    assert err.count("Stopped: 0 of 2 seed runs. Run the same command") == 1
    assert "No configuration is finished yet." in out
    assert not [*(tmp_path / "storage" / "studies" / "s").glob("driver*")]
    wait_for("the end of Ray's processes", lambda: not processes.titles())


def weights(folder: StoragePath) -> dict[str, Any]:
    """Return the tensors of each file, because the order of a file's header is random."""
    files = {name: (folder / name).read() or b"" for name in folder.names()}
    return {
        name: {n: tensor.tolist() for n, tensor in load(content).items()}
        for name, content in files.items()
    }


def test_a_folder_and_an_object_store_hold_the_same(
    tune: list[str], sclsearch: Call, bucket: str, tmp_path: Path
) -> None:
    def command(*arguments: str) -> tuple[str, str]:
        result = sclsearch(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout, result.stderr

    tune += ["--configs=2", "--concurrency=1"]
    here, there = str(tmp_path / "storage"), f"{bucket}/team/storage"
    with in_process():
        command(*tune, "--storage", here, "--tracking", "none")
    _, err = command(*tune, "--storage", there)
    assert "MLflow: an object store holds no database" in err
    before = [*RunStore(there).all()]
    evaluations = {run.key: run.evaluations for run in before}
    assert len(evaluations) == 4
    assert evaluations == {run.key: run.evaluations for run in RunStore(here).all()}
    near, far = (storage_path(storage) / "studies" / "s" for storage in (here, there))
    assert weights(far / "weights") == weights(near / "weights") != {}
    assert far.names() == near.names()
    _, err = command(*tune, "--storage", there, "--tracking", "none")
    assert err == ""  # a search that trains nothing prints no progress
    assert [*RunStore(there).all()] == before
    assert [path.name for path in tmp_path.iterdir()] == ["storage"]
    key = min(evaluations)
    assert f"{key[:12]} is identical in every" in command("rerun", key[:10], "--storage", there)[0]
