"""Studies for tests: a toy task and its searches, made-up seed runs, and training without Ray."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sclsearch.methods.base import Model
from sclsearch.reports.report import finished_winner, report
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import worker_context
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, RowResults, SeedRun
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyRecord, StudyStore
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import restore_spec
from sclsearch.study.spec import Ending, RunOptions, StudySpec
from sclsearch.study.state import SeedRunTask
from sclsearch.study.study import Study
from sclsearch.tasks.custom import CustomTask

MakeSpec = Callable[..., StudySpec]
Prepare = Callable[..., Scheduler]
Resolved = Callable[..., Study]
Confusion = Sequence[Sequence[int]]
Counts = Callable[[int, int], Confusion | None]

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
    created=1_700_000_000.5,
)
REPRODUCIBLE = ("identity", "evaluations", "kept", "test", "predictions", "failure")
GOOD, BAD = ("good", "great", "fine", "lovely"), ("bad", "awful", "poor", "dull")
FILLERS = ("the film", "it", "a film", "the", "very", "and")

TRAIN = "sclsearch.search.run._train"
"""Function that trains all seed runs of a search."""


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> CustomTask:
    """Return 100 rows, 60 to train on, whose class follows from one word in four of five rows."""
    draw = random.Random(0)
    lines = ["text,label,split"]
    for number in range(100):
        good = number % 2
        positive = good if draw.random() < 0.8 else 1 - good
        words = [draw.choice(FILLERS), "was", draw.choice(GOOD if positive else BAD)]
        split = ("train", "train", "train", "validation", "test")[number // 2 % 5]
        lines.append(f"{' '.join(words)} {draw.choice(FILLERS)},{'ny'[good]},{split}")
    path = tmp_path_factory.mktemp("data") / "toy.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return CustomTask(path, text=("text",), label="label", split_column="split")


@pytest.fixture(scope="session")
def space_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a space with two lists of choices and a range."""
    path = tmp_path_factory.mktemp("space") / "mine.yaml"
    path.write_text(SPACE, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def make_spec(toy: CustomTask, tiny_bert: Path, space_file: Path) -> MakeSpec:
    """Return a function that makes the spec of `scl` on the toy task, with changes."""
    usual = {"method": "scl", "task": toy, "model": str(tiny_bert), "space": space_file}
    return lambda **changes: StudySpec(**{**usual, **changes})


@pytest.fixture
def resolved(make_spec: MakeSpec) -> Resolved:
    """Return a function that resolves that spec on a CPU, with changes."""
    return lambda **changes: resolve(make_spec(**changes), RunOptions(gpus_per_trial=0))


@pytest.fixture
def prepare(make_spec: MakeSpec, tmp_path: Path) -> Prepare:
    """Return a function that prepares that study in a storage folder of the test."""
    usual = {"storage": tmp_path / "storage", "configs": 4, "seeds": 2, "concurrency": 2}

    def prepare(spec: StudySpec | None = None, **changes: Any) -> Scheduler:
        options = RunOptions(**{**usual, "gpus_per_trial": 0, **changes})
        # The fake workers have no weights to store.
        return replace(prepare_study(spec or make_spec(), options), weights=False)

    return prepare


class Workers:
    """Fake workers that finish the seed runs of a scheduler without training.

    Args:
        counts: Confusion counts of a configuration and seed; without it they follow from the key.
        weights: Whether a seed run whose weights are needed stores those of a new model.
        fields: Fields of each seed run.
    """

    def __init__(
        self, counts: Counts | None = None, *, weights: bool = False, **fields: Any
    ) -> None:
        self.counts, self.weights, self.fields = counts, weights, fields

    def trained(self, task: SeedRunTask) -> SeedRun:
        right = int(task.key[:8], 16) % 20
        usual = [[right, 20 - right], [0, 0]]
        return seed_run(task, self.counts(*task.id) if self.counts else usual, **self.fields)

    def finish(self, scheduler: Scheduler, task: SeedRunTask) -> None:
        if task.id in scheduler.repeating:
            scheduler.runs.put_test(self.trained(task), RowResults({}, {}))
        else:
            scheduler.runs.put(self.trained(task))
        if self.weights and task.weights:
            save = partial(_save_weights, scheduler, task)
            scheduler.store.weights(task.key).save_file(save)
        run = scheduler.runs.get(task.key)
        assert run is not None
        scheduler.finish(task, run)

    def running(self, scheduler: Scheduler, at_a_time: int = 1_000) -> list[SeedRunTask]:
        """Start seed runs up to a limit; return all that run."""
        while len(scheduler.running) < at_a_time and scheduler.next():
            pass
        return list(scheduler.running.values())

    def decide(self, scheduler: Scheduler) -> None:
        """Finish seed runs, one at a time, until the winner is decided and can be tested."""
        while not scheduler.decided:
            self.finish(scheduler, self.running(scheduler, 1)[0])

    def run_out(self, scheduler: Scheduler, most: int = 1_000) -> list[tuple[int, int]]:
        """Finish seed runs of which two are running; return the order."""
        order: list[tuple[int, int]] = []
        while len(order) < most and (tasks := self.running(scheduler, 2)):
            self.finish(scheduler, tasks[0])
            order.append(tasks[0].id)
        return order


@pytest.fixture(scope="session")
def workers() -> Workers:
    """Return the fake workers of a search."""
    return Workers()


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
    counts: Counts = lambda _, r: [[20 + r, 30 - r], [10, 40]],
    *,
    seconds: float = 60.0,
) -> str:
    """Store a seed run with the counts of each configuration and replicate; return the study."""
    assert spec is not None
    scheduler = prepare_study(spec, options).begin()
    fields = {"origin": scheduler.record.origin, "environment": {"threads": 1}, "seconds": seconds}
    workers = Workers(counts, weights=True, **fields)
    while tasks := workers.running(scheduler, 1):
        workers.finish(scheduler, tasks[0])
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


def same_weights(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Return whether the tensors of two state dictionaries are equal to the bit."""
    assert one.keys() == other.keys()
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@contextmanager
def in_process() -> Iterator[None]:
    """Train the seed runs of searches one after the other in this process, without Ray."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TRAIN, _train)
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
