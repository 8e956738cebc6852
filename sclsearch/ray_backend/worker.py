"""Trainable of Ray workers: checks its machine, trains a seed run, stores it, and reports."""

import ctypes
import json
import math
import os
import platform
import re
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import joblib
import torch

from sclsearch.encoders.load import forget_encoder
from sclsearch.encoders.models import model_digest, model_folder
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods import error_text
from sclsearch.protocols.base import Splits
from sclsearch.ray_backend.start import nvidia_driver
from sclsearch.store.runs import Failure, RowResults, RunStore, SeedRun
from sclsearch.store.storage import DamagedError, Storage
from sclsearch.store.studies import StudyStore
from sclsearch.study.state import with_result
from sclsearch.study.study import Study
from sclsearch.training.checkpoint import Checkpoint, TrainingState, load_state, save_state
from sclsearch.training.data import Tokens
from sclsearch.training.device import backend_for, is_of_machine, is_out_of_memory
from sclsearch.training.engine import Report, train
from sclsearch.training.evaluation import NonFiniteLossError, TrainingResult, save_weights
from sclsearch.training.spec import SeedRunSpec

PACKAGES = ("sclsearch", "torch", "transformers", "tokenizers", "numpy", "ray", "optuna")


def environment(threads: int, gpus: float | None = None) -> dict[str, Any]:
    """Return the environment of a seed run that `threads` torch threads train.

    `gpus` is the number of GPUs that the search reserves for it, such as 0.5; None if unknown.
    """
    return {
        "packages": versions(),
        "commit": commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "driver": nvidia_driver(),
        "threads": threads,
        **({} if gpus is None else {"gpus": gpus}),
        "host": platform.node(),
        "pid": os.getpid(),
    }


@cache
def cpu_name() -> str | None:
    """Return the model of this machine's CPU; None if Linux does not know it, as on ARM."""
    with suppress(OSError):
        found = re.search(
            r"^model name\s*: (.*\S)", Path("/proc/cpuinfo").read_text(), re.MULTILINE
        )
        return found and found[1]
    return None


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that can affect results."""
    return {name: version(name) for name in PACKAGES}


@cache
def commit() -> str | None:
    """Return the commit of the running checkout, with `-dirty` appended if it was changed.

    A container image has no checkout; its build sets SCLSEARCH_COMMIT instead.
    """
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return os.environ.get("SCLSEARCH_COMMIT") or None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.check_output(
            command, cwd=folder, stderr=subprocess.DEVNULL, text=True, timeout=10
        ).strip()
    return None


LIVE_SECONDS = 30.0
"""Seconds between two evaluations that a worker reports while it trains."""
PROGRESS_SECONDS = 3.0
"""Seconds between two reports on the share of updates that are done."""
UNFIT_SECONDS = 30.0
"""Seconds before an unfit node is ready again, so that it does not attract all seed runs."""


class UnfitNodeError(Exception):
    """The node cannot train seed runs of this study; another node may."""


def model_here(study: "Study", store: StudyStore, versions: Mapping[str, str]) -> Path:
    """Return the model's folder on this machine, which may have just joined the cluster.

    Raises:
        UnfitNodeError: This machine does not see the study in the storage, has another model or
            other versions, or lacks a required GPU.
    """
    try:
        _check_machine(store.storage, store.name, tuple(versions.items()))
        backend_for(study.numerics)
        return _checked(study.model, study.model_name, study.model_digest)
    except (SclsearchError, UnfitNodeError, OSError) as error:
        time.sleep(UNFIT_SECONDS)
        raise UnfitNodeError(str(error)) from error


@cache  # errors are not cached
def _check_machine(storage: Storage, name: str, versions: tuple[tuple[str, str], ...]) -> None:
    store, driver = StudyStore(storage, name), dict(versions)
    node, here = platform.node(), versions_here()
    if store.record() is None:
        raise UnfitNodeError(
            f"{store.folder}: {node} does not see the study. Give a folder that all nodes share, "
            "or s3://BUCKET/FOLDER."
        )
    if other := [name for name, version in driver.items() if here[name] != version]:
        raise UnfitNodeError(
            f"{', '.join(f'{name} {driver[name]}' for name in other)}: {node} has other versions: "
            f"{', '.join(f'{name} {here[name]}' for name in other)}. Start all nodes from one "
            "image."
        )


@cache
def _checked(there: Path, name: str, digest: str) -> Path:
    folder = there if there.is_dir() else model_folder(name)
    if model_digest(folder) != digest:
        raise UnfitNodeError(
            f"--model {name}: the files in {folder} on {platform.node()} differ from those of "
            "the study. Put the same files there."
        )
    return folder


def versions_here() -> dict[str, str]:
    """Return the versions of Python and of packages that can affect results."""
    return {"python": ".".join(platform.python_version_tuple()[:2]), **versions()}


MEMORY_ADVICE = (
    "Run fewer seed runs at a time, reduce max_length, or set chunk_tokens; the last two need a "
    "new study."
)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Shared data that a worker needs for any seed run of a study."""

    study: Study  # without its texts
    name: str
    storage: Storage
    tokens: Mapping[int, Mapping[str, Tokens]]  # by `max_length` and split
    splits: Mapping[int, Splits]  # by replicate number
    threads: int  # torch threads per seed run
    origin: Mapping[str, Any]  # what `rerun` needs to train a seed run again
    versions: Mapping[str, str] = field(default_factory=dict)  # of the driver; here must be equal
    gpus: float | None = None  # GPUs, or share of one, of each seed run; None if unknown
    graphs: bool = True  # whether to replay updates on a GPU as CUDA graphs
    checkpoint_every: float | None = None  # seconds of training; None for no checkpoints
    checkpoint: Checkpoint | None = None  # of the seed run that this worker trains
    report: Report = lambda *_: None  # receiver of the training's progress


def save_context(context: WorkerContext, folder: Path) -> Path:
    """Write the context to a file for the workers of this machine, which share its arrays.

    If an agent of Ray is killed, its raylet ends, and then Ray's core ends a process that owns
    objects in its store. Thus the driver owns none.
    """
    from ray import cloudpickle

    file = folder / "context"
    arrays = {"tokens": context.tokens, "splits": context.splits}
    rest = cloudpickle.dumps(replace(context, tokens={}, splits={}))
    joblib.dump((arrays, rest), file)
    return file


@cache
def load_context(file: Path) -> WorkerContext:
    """Return the context of a file, with arrays that all workers of this machine share."""
    from ray import cloudpickle

    arrays, rest = joblib.load(file, mmap_mode="r")
    context: WorkerContext = cloudpickle.loads(rest)
    return replace(context, **arrays)


def seed_run_trial(config: Mapping[str, Any], context: WorkerContext | Path) -> None:
    """Train a seed run unless it is stored, and test it if asked; Ray Tune calls this trainable.

    `config` has the numbers `configuration` and `replicate`, `fields` as JSON, whether the result
    needs a `test` score, whether its `weights` are stored, whether it may use CUDA `graphs`, and
    whether the driver counts the time (`timed`): then the trial reports when training starts.
    """
    from ray import tune

    if isinstance(context, Path):
        context = load_context(context)
    return_freed_memory()
    # A worker trains many seed runs; Ray sets the thread count for its first trial only.
    torch.set_num_threads(context.threads)
    graphs = context.graphs and config["graphs"]
    context = replace(context, graphs=graphs, report=_seldom(tune.report))
    store = StudyStore(context.storage, context.name)
    study = replace(context.study, model=model_here(context.study, store, context.versions))
    fields, number = json.loads(config["fields"]), config["replicate"]
    spec = study.seed_run_spec(fields, number, context.splits[number])
    if config["timed"]:
        tune.report({"key": ""})
    ended: dict[str, object] = {"key": spec.key}
    try:
        run, warning = _finish(spec, config, context, store)
        ended |= {"run": replace(run, predictions={}), "warning": warning}
    except UntestableError as error:
        ended["failure"] = "untestable", str(error)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # the frames hold the model
        forget_encoder()
        torch.cuda.empty_cache()
        reason = traceback.format_exception_only(error)[-1].strip().rstrip(".")
        ended["failure"] = "out-of-memory", f"{reason}. {MEMORY_ADVICE}"
    tune.report({**ended, "done": True})  # without `done` Tune would ask once more


def _seldom(report: Callable[[dict[str, Any]], object]) -> Report:
    """Return a receiver that reports progress to Tune if enough time has passed."""
    told = evaluated = time.monotonic()

    def receive(share: float, evaluation: Mapping[str, Any] | None = None) -> None:
        nonlocal told, evaluated
        now = time.monotonic()
        if evaluation is not None and now - evaluated >= LIVE_SECONDS:
            told = evaluated = now
            report({"key": "", "share": share, "evaluation": evaluation})
        elif now - told >= PROGRESS_SECONDS:
            told = now
            report({"key": "", "share": share})

    return receive


def _finish(
    spec: SeedRunSpec, config: Mapping[str, Any], context: WorkerContext, store: StudyStore
) -> tuple[SeedRun, str]:
    """Train a seed run if the storage lacks a result, and store it.

    Returns:
        The stored seed run, and a warning or no text.
    """
    runs = RunStore(context.storage)
    with _storage_faults(context.storage):
        stored = runs.get(spec.key)
        trained = stored is not None and not (config["test"] and stored.untested)
        if stored is not None and (stored.failure or (trained and not config["weights"])):
            return stored, ""
        checkpoint = StoredCheckpoint(store, spec.key, context.checkpoint_every)
    context, warning = replace(context, checkpoint=checkpoint), ""
    if stored is None:
        run, result = attempt(spec, context, config["configuration"], test=config["test"])
        rows = None if result is None else row_results(spec, context, result)
        with _storage_faults(context.storage):
            if not runs.put(run, rows):  # another machine was faster
                run = runs.get(spec.key) or run
    else:
        run, result = _again(stored, spec, context)
        warning = stored.difference(run, spec.metric)
        if stored.untested:
            with _storage_faults(context.storage):
                runs.put_test(run, row_results(spec, context, result))
        else:
            run = stored
    if config["weights"] and result is not None:
        warning = _keep_weights(store, spec, result) or warning
    checkpoint.delete()
    return run, "\n".join(filter(None, (checkpoint.warning, warning)))


class StoredCheckpoint(Checkpoint):
    """Checkpoint in the folder of a study; a fault of it costs only time and is a `warning`."""

    def __init__(self, store: StudyStore, key: str, every: float | None) -> None:
        self.warning, self._used, self._store, self._key = "", False, store, key
        self._place, self._owner = store.checkpoint(key), {"key": key, **versions_here()}
        state = None
        try:
            if every:
                state = self._place.load_file(partial(load_state, owner=self._owner))
        # Without a valid checksum nothing is read; the other errors are those of other fields.
        except (DamagedError, ValueError, TypeError, RuntimeError, UnpicklingError) as error:
            self._warn("is ignored", error)
        self._used |= state is not None
        super().__init__(every or math.inf, state)

    def write(self, state: TrainingState) -> None:
        self._used = True  # even a failed write may leave a file
        try:
            save = partial(save_state, state=state, owner=self._owner)
            self._place.without_retries().save_file(save)
        except (OSError, SclsearchError, RuntimeError) as error:  # torch raises RuntimeError
            self._warn("cannot be written", error)
        super().write(state)

    def delete(self) -> None:
        if self._used:
            self._store.delete_checkpoints(self._key)

    def _warn(self, fault: str, error: Exception) -> None:
        self._used = True
        self.warning = f"seed run {self._key[:12]}: its checkpoint {fault}: {first_line(error)}"


def return_freed_memory() -> None:
    """Return memory that the process has freed to the operating system.

    Tune runs each trial in a new thread, and glibc keeps freed memory for the thread that used it.
    Without this call a worker grows with each seed run by the size of its weights and gradients.
    """
    with suppress(AttributeError):  # C libraries other than glibc have no such function
        ctypes.CDLL(None).malloc_trim(0)


class BrokenStorageError(SclsearchError):
    """Failure of a worker to read or write the storage; not a fault of the seed run."""


class UntestableError(SclsearchError):
    """Error of a method in the test of a trained seed run; it would occur on every machine."""


@contextmanager
def _storage_faults(storage: Storage) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BrokenStorageError(f"{storage}: {error.strerror or error}") from error


def _keep_weights(store: StudyStore, spec: SeedRunSpec, result: TrainingResult) -> str:
    """Store the weights; return a warning if that fails, because the scores are stored."""
    try:
        store.weights(spec.key).save_file(partial(save_weights, result=result, spec=spec))
    except (OSError, SclsearchError) as error:
        return (
            f"seed run {spec.key[:12]}: its weights cannot be kept: {error}. `sclsearch export` "
            "trains it again."
        )
    return ""


def _again(
    stored: SeedRun, spec: SeedRunSpec, context: WorkerContext
) -> tuple[SeedRun, TrainingResult]:
    threads = int(stored.environment.get("threads", context.threads))
    torch.set_num_threads(threads)
    try:
        tokens = context.tokens[spec.training.max_length]
        result = train(spec, tokens, graphs=context.graphs, checkpoint=context.checkpoint)
    except Exception as error:
        if is_out_of_memory(error) or is_of_machine(error):
            raise  # a retry may succeed
        raise UntestableError(error_text(error, context.study.method)) from error
    run = with_result(stored, result)
    return replace(
        run, seconds=stored.seconds + run.seconds, environment=environment(threads, context.gpus)
    ), result


def attempt(
    spec: SeedRunSpec, context: WorkerContext, configuration: int, *, test: bool = True
) -> tuple[SeedRun, TrainingResult | None]:
    """Train one seed run; return its stored form, and the training result unless it failed.

    Training is deterministic, so its exceptions are final, except errors of the machine. Those are
    out-of-memory, which depends on other processes, and file or GPU errors. The function raises
    them, so that Ray ends this worker and the search retries the seed run.
    """
    number = spec.replicate.number
    run = SeedRun(
        key=spec.key,
        identity=spec.identity,
        origin={**context.origin, "configuration": configuration, "replicate": number},
        started=time.time(),
        environment=environment(context.threads, context.gpus),
    )
    try:
        tokens = context.tokens[spec.training.max_length]
        graphs, report, checkpoint = context.graphs, context.report, context.checkpoint
        result = train(spec, tokens, test=test, graphs=graphs, report=report, checkpoint=checkpoint)
    except Exception as error:
        if is_out_of_memory(error) or is_of_machine(error):
            raise
        failure = Failure("raised", error_text(error, context.study.method))
        if isinstance(error, NonFiniteLossError):
            failure = Failure("non-finite", str(error))
        return replace(run, seconds=time.time() - run.started, failure=failure), None
    return with_result(run, result), result


def row_results(spec: SeedRunSpec, context: WorkerContext, result: TrainingResult) -> RowResults:
    """Return labels and class probabilities of the rows that a training result has evaluated."""
    tokens = context.tokens[spec.training.max_length]
    evaluated = {"validation": spec.splits.validation, "test": spec.splits.test}
    labels = {
        name: tokens[evaluated[name].split].y[evaluated[name].index]
        for name in result.probabilities
    }
    return RowResults(labels, result.probabilities)
