"""Studies for tests: their space and records, made-up seed runs, and training without Ray."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sclsearch.methods.base import Model
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import worker_context
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyRecord, StudyStore
from sclsearch.study.restore import restore_spec
from sclsearch.study.spec import Ending, RunOptions, StudySpec
from sclsearch.study.state import SeedRunTask

Confusion = Sequence[Sequence[int]]

SPACE = """
method: scl
source: a test
published:
  - {tau: 0.3, lam: 0.9, learning_rate: 1e-2}
fixed: {epochs: 8, batch_size: 8, max_length: 16, pooling: mean}
space:
  tau: {type: choice, values: [0.1, 0.3, 0.5]}
  lam: {type: choice, values: [0.5, 0.9]}
  learning_rate: {type: log, low: 1e-3, high: 3e-2}
"""
ORIGIN: dict[str, Any] = {
    **{"method": "scl", "task": "cola", "model": "bert", "protocol": "plain", "rule": "mean"},
    **{"train_size": None, "shots": None, "notes": [], "study": "first"},
}
SEED_RUN_ORIGIN = {**ORIGIN, "configuration": 0, "replicate": 0}
FIELDS = {"batch_size": 16, "epochs": 3, "learning_rate": 1e-5, "max_length": 64}
TRAINING = {"method": "scl", "metric": "mcc", "data": "d", "numerics": "cpu-fp32", "weights": "w"}
RECORD = StudyRecord(
    name="first",
    identity={
        **{"task": "cola", "model": "bert", "protocol": "plain", "size": None},
        "space": {"parameters": [], "tau": [0.1, 0.3]},
    },
    training={**TRAINING, "engine": 1, "evaluate": 20},
    origin=ORIGIN,
    open_configurations=3,
    created=1_700_000_000.5,
)
REPRODUCIBLE = ("identity", "evaluations", "kept", "test", "predictions", "failure")


def stored(storage: Path) -> dict[str, Any]:
    """Return the seed runs of a storage folder by key."""
    files = (storage / "runs").glob("*.json")
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def reproducible_results(storage: Path) -> dict[str, Any]:
    """Return the parts of the stored seed runs that do not depend on machine and time."""
    return {key: {name: run[name] for name in REPRODUCIBLE} for key, run in stored(storage).items()}


def seed_run(task: SeedRunTask, confusion: Confusion | None, **fields: Any) -> SeedRun:
    """Return the seed run of a task with made-up counts for all its rows; None is a failure."""
    fields = {"key": task.key, "identity": task.identity, "origin": SEED_RUN_ORIGIN, **fields}
    own = {"configuration": task.id[0], "replicate": task.replicate.number}
    fields["origin"] = {**fields["origin"], **own}
    if confusion is None:
        return SeedRun(**fields, failure=Failure("raised", "a test"))
    counts = {"confusion": confusion}
    best = {"epoch": 1.0, "update": 4, "loss": {"ce": 0.5}, "validation": counts}
    return SeedRun(**fields, evaluations=(best,), kept=0, test=counts if task.test else {})


def rising(configuration: int, replicate: int) -> Confusion:
    """Return counts of 500 rows; later ones of two replicates a configuration are better."""
    right = 300 + 10 * (2 * configuration + replicate)
    return [[right, 500 - right], [0, 0]]


def finish(
    spec: StudySpec | None,
    options: RunOptions,
    counts: Callable[[int, int], Confusion | None] = lambda _, r: [[20 + r, 30 - r], [10, 40]],
    *,
    seconds: float = 60.0,
) -> str:
    """Store a seed run with the counts of each configuration and replicate; return the study."""
    assert spec is not None
    scheduler = prepare_study(spec, options).begin()
    more = {"origin": scheduler.record.origin, "environment": {"threads": 1}}
    while (task := scheduler.next()) is not None:
        run = seed_run(task, counts(*task.id), seconds=seconds, **more)
        scheduler.runs.put(run)
        if task.weights:
            save = partial(_save_weights, scheduler, task)
            scheduler.store.weights(task.key).save_file(save)
        scheduler.finish(task, run)
    return scheduler.name


def _save_weights(scheduler: Scheduler, task: SeedRunTask, path: Path) -> None:
    """Write the pretrained encoder with new modules to a file."""
    from sclsearch.encoders.load import load_encoder
    from sclsearch.training.evaluation import save_tensors

    study, number = scheduler.study, task.replicate.number
    spec = study.seed_run_spec(task.configuration.fields, number, scheduler.splits[number])
    encoder = load_encoder(spec.model, spec.model_name)
    modules = spec.stages[-1].new_modules(encoder, len(study.data.task.labels))
    save_tensors(path, Model(encoder, modules).state_dict(), {})


def repeated_spec(storage: Storage, study: str, **repetition: Any) -> StudySpec:
    """Return what `confirm` trains for a finished study."""
    record, winner = StudyStore(storage, study).record(), finished_winner(report(storage, study))
    assert record is not None
    return restore_spec(record.origin, winner.fields, **repetition)


@contextmanager
def in_process() -> Iterator[None]:
    """Train the seed runs of searches one after the other in this process, without Ray."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sclsearch.search.run._train", _train)
        yield


def _train(scheduler: Scheduler, *_: object) -> Ending:
    from ray import cloudpickle

    from sclsearch.ray_backend.tuner import SeedSearcher
    from sclsearch.ray_backend.worker import seed_run_trial

    searcher = SeedSearcher(scheduler)
    # A copy as a Ray worker gets it: pickled, with read-only arrays.
    arrays: list[Any] = []
    rest = cloudpickle.dumps(worker_context(scheduler), 5, buffer_callback=arrays.append)
    context = cloudpickle.loads(rest, buffers=[bytes(array.raw()) for array in arrays])
    reports: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ray.tune.report", reports.append)
        while isinstance(config := searcher.suggest("trial"), dict):
            seed_run_trial(config, context)
            searcher.on_trial_complete("trial", reports.pop())
    if searcher.fault is not None:
        raise searcher.fault
    return "complete" if scheduler.complete else "interrupted"
