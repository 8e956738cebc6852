"""Tests of checkpoints in the storage: lost workers, kills, damaged files, and short seed runs."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from sclsearch.ray_backend import worker
from sclsearch.ray_backend.tuner import SeedSearcher
from sclsearch.ray_backend.worker import save_context, seed_run_trial, versions_here
from sclsearch.search.run import worker_context
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.storage import Storage
from sclsearch.training.checkpoint import load_state, save_state
from tests.studies import REPRODUCIBLE, MakeSpec, Prepare

WorkerOf = Callable[..., "Worker"]
EVALUATIONS, LOST = 12, 5
"""Evaluations of the seed run, and those that a lost attempt has reported."""


@pytest.fixture
def worker_of(make_spec: MakeSpec, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> WorkerOf:
    """Return a function that returns the worker of a new study: one seed run in two stages."""
    monkeypatch.setattr(worker, "LIVE_SECONDS", 0.0)
    monkeypatch.setattr(worker, "PROGRESS_SECONDS", 1e9)

    def worker_of(storage: Storage, checkpoint_every: Any = 1e-6) -> Worker:
        settings = {"epochs": EVALUATIONS, "max_length": 16, "lam": 1.0}
        spec = make_spec(settings=settings, space=None, searched=False)
        options = {"storage": storage, "checkpoint_every": checkpoint_every}
        study = prepare(spec, configs=1, seeds=1, **options).begin()
        return Worker(replace(study, weights=True))

    return worker_of


class Worker:
    """Worker that trains the only seed run of a study."""

    def __init__(self, study: Scheduler) -> None:
        searcher = SeedSearcher(replace(study))
        self.study, self.config = study, searcher.suggest("trial")
        self.key = searcher.tasks["trial"].key
        self.checkpoint = study.store.checkpoint(self.key)

    def train(self, lost: int = 1000) -> list[Any]:
        """Train; return the reports. Raise OSError instead of the report with the number `lost`."""
        reports: list[Any] = []

        def report(one: Any) -> None:
            if len(reports) == lost:
                raise OSError(116, "Stale file handle")
            reports.append(one)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ray.tune.report", report)
            seed_run_trial(self.config, worker_context(self.study))
        return reports

    @property
    def stored(self) -> list[Any]:
        """Stored results that must be equal to the bit."""
        run, weights = self.study.runs.get(self.key), self.study.store.load_weights(self.key)
        assert run is not None
        assert weights is not None
        bits = {name: tensor.numpy().tobytes() for name, tensor in weights.items()}
        return [run.stages, run.rows, bits, *(getattr(run, name) for name in REPRODUCIBLE)]


@pytest.fixture
def expected(worker_of: WorkerOf, tmp_path: Path) -> list[Any]:
    """Return what an undisturbed worker has stored; it is too short for a checkpoint."""
    undisturbed = worker_of(tmp_path / "whole", None)
    assert len(undisturbed.train()) == EVALUATIONS + 1
    assert "checkpoints" not in undisturbed.study.store.folder.names()
    return undisturbed.stored


@pytest.mark.parametrize("kind", ["folder", "s3", "off"])
def test_a_lost_seed_run_resumes_from_its_checkpoint_and_deletes_it(
    worker_of: WorkerOf, expected: Any, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    storage = f"{request.getfixturevalue('bucket')}/storage" if kind == "s3" else tmp_path
    one = worker_of(storage, "off" if kind == "off" else 1e-6)
    with pytest.raises(OSError, match="Stale file handle"):
        one.train(lost=LOST)
    assert one.checkpoint.exists() == (kind != "off")
    *evaluations, end = one.train()
    assert len(evaluations) == EVALUATIONS - (0 if kind == "off" else LOST)
    assert end["warning"] == ""
    assert one.stored == expected
    assert not any("checkpoints" in path for path in one.study.store.folder.files())


@pytest.mark.parametrize("fault", ["checksum differs", "is of another seed run", "File exists"])
def test_a_fault_of_a_checkpoint_is_a_warning_and_the_seed_run_trains_from_the_beginning(
    worker_of: WorkerOf, expected: Any, fault: str, tmp_path: Path
) -> None:
    one = worker_of(tmp_path)
    file, owner = Path(str(one.checkpoint)), {"key": one.key, **versions_here()}
    if fault == "File exists":
        file.parent.touch()  # the folder cannot be created
    with pytest.raises(OSError, match="Stale file handle"):
        one.train(lost=LOST)
    if fault == "checksum differs":
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        (file.parent / f".{file.name}.0.part").touch()  # of a write that was killed
    elif fault == "is of another seed run":
        save_state(file, load_state(file, owner), {**owner, "torch": "1.0"})
    *evaluations, end = one.train()
    assert len(evaluations) == EVALUATIONS
    assert end["warning"].startswith(f"seed run {one.key[:12]}: its checkpoint ")
    assert fault in end["warning"]
    assert len(end["warning"].splitlines()) == 1
    assert one.stored == expected
    assert not list(file.parent.glob("*"))


def in_process(config: Any, context: Path) -> None:
    """Train a seed run in a process of its own."""
    tune.report = lambda _: None
    seed_run_trial(config, context)


def written(file: Path) -> int:
    """Return when a file was written, in nanoseconds; 0 if it does not exist."""
    with suppress(FileNotFoundError):
        return file.stat().st_mtime_ns
    return 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_seed_run_that_is_killed_at_random_equals_an_undisturbed_one(
    worker_of: WorkerOf, expected: Any, tmp_path: Path
) -> None:
    one, draw = worker_of(tmp_path), random.Random(7)
    context, file = save_context(worker_context(one.study), tmp_path), Path(str(one.checkpoint))
    processes = get_context("forkserver")
    processes.set_forkserver_preload([__name__, "transformers.models.bert.modeling_bert"])
    kills, code = 0, None
    while code != 0:
        before = written(file)
        process = processes.Process(target=in_process, args=(one.config, context))
        process.start()
        # At most a moment after the first new checkpoint, so that every attempt gets further.
        while process.is_alive() and written(file) in {0, before}:
            process.join(0.01)
        process.join(draw.uniform(0, 0.1))
        kills += process.is_alive()
        process.kill()
        process.join()
        code = process.exitcode
    assert kills >= 3
    assert one.stored == expected
    assert not list(file.parent.iterdir())
