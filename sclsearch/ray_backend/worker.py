"""Trainable of Ray workers: trains or tests a seed run and stores it before it reports to Tune."""

import ctypes
import json
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from sclsearch.encoders.load import forget_encoder
from sclsearch.errors import SclsearchError
from sclsearch.methods import NamedMethod, error_text
from sclsearch.protocols.base import Splits
from sclsearch.ray_backend.nodes import model_here, versions_here
from sclsearch.store.rows import RowResults
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore
from sclsearch.study.environment import environment
from sclsearch.study.seed_runs import with_result
from sclsearch.study.study import Study
from sclsearch.study.tokenized import tokenized
from sclsearch.training.data import TokenizedTask
from sclsearch.training.device import is_of_machine, is_out_of_memory
from sclsearch.training.engine import train
from sclsearch.training.evaluation import NonFiniteLossError
from sclsearch.training.result import TrainingResult, save_weights
from sclsearch.training.spec import SeedRunSpec, TrainingData

if TYPE_CHECKING:
    from sclsearch.study.prepared import PreparedStudy

MEMORY_ADVICE = (
    "Run fewer seed runs at a time, reduce max_length, or set chunk_tokens; the last two need a "
    "new study."
)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Shared data that a worker needs for any seed run of a study.

    Attributes:
        study: The study, without its texts.
        tokens: The tokenized task, by `max_length`.
        splits: Rows of each replicate, by replicate number.
        threads: Torch threads per seed run.
        origin: The data that `rerun` needs to train a seed run again.
        versions: The driver's package versions; a worker's must be equal.
        gpus: GPUs, or share of one, that each seed run takes; None if unknown.
        graphs: Whether to replay updates on a GPU as CUDA graphs.
    """

    study: Study
    name: str
    storage: Storage
    tokens: Mapping[int, TokenizedTask]
    splits: Mapping[int, Splits]
    threads: int
    origin: Mapping[str, Any]
    versions: Mapping[str, str] = field(default_factory=dict)
    gpus: float | None = None
    graphs: bool = True


def worker_context(
    prepared: "PreparedStudy", threads: int, gpus: float | None = None, *, graphs: bool = True
) -> WorkerContext:
    """Return the context of a prepared study's seed runs, each with `threads` torch threads.

    Ray passes it to every trial. Its arrays lie in shared memory; texts would be copied.
    """
    study, source = prepared.study, prepared.study.paraphrases
    return WorkerContext(
        study=replace(
            study,
            data=replace(study.data, splits={}),
            paraphrases=source and replace(source, rows={}),
        ),
        name=prepared.store.name,
        storage=prepared.storage,
        tokens=tokenized(study, prepared.splits.values()),
        splits=prepared.splits,
        threads=threads,
        origin=prepared.record.origin,
        versions=versions_here(),
        gpus=gpus,
        graphs=graphs,
    )


def seed_run_trial(config: Mapping[str, Any], context: WorkerContext) -> None:
    """Train a seed run unless it is stored, and test it if asked; Ray Tune calls this trainable.

    Args:
        config: The numbers `configuration` and `replicate`, `fields` as JSON, whether the result
            needs a `test` score, whether its `weights` are stored, whether it may use CUDA
            `graphs`, and `deadline` in Unix seconds. On a cluster, a trial may start hours after
            its request.
        context: The shared data of the study's trials.
    """
    from ray import tune

    return_freed_memory()
    if time.time() > config["deadline"]:
        tune.report({"key": "", "late": True})
        return
    # A worker trains many seed runs; Ray sets the thread count for its first trial only.
    torch.set_num_threads(context.threads)
    context = replace(context, graphs=context.graphs and config["graphs"])
    store = StudyStore(context.storage, context.name)
    study = replace(context.study, model=model_here(context.study, store, context.versions))
    fields, number = json.loads(config["fields"]), config["replicate"]
    spec = study.seed_run_spec(fields, number, context.splits[number])
    failure: tuple[str, ...] = ()
    warning = ""
    try:
        warning = _finish(spec, config, context, store)
    except UntestableError as error:
        failure = "untestable", str(error)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # the frames hold the model
        forget_encoder()
        torch.cuda.empty_cache()
        reason = traceback.format_exception_only(error)[-1].strip().rstrip(".")
        failure = "out-of-memory", f"{reason}. {MEMORY_ADVICE}"
    tune.report({"key": spec.key, "failure": failure, "warning": warning})


def _finish(
    spec: SeedRunSpec, config: Mapping[str, Any], context: WorkerContext, store: StudyStore
) -> str:
    """Train a seed run if the storage lacks a result, and store it; return a warning or no text."""
    runs = RunStore(context.storage)
    with _storage_faults(context.storage):
        stored = runs.get(spec.key)
    if stored is None:
        warning = ""
        run, result = attempt(spec, context, config["configuration"], test=config["test"])
        rows = None if result is None else row_results(spec, context, result)
        with _storage_faults(context.storage):
            runs.put(run, rows)
    elif stored.failure is None and (config["weights"] or (config["test"] and stored.untested)):
        run, result = _again(stored, spec, context)
        warning = stored.difference(run, spec.metric)
        if stored.untested:
            with _storage_faults(context.storage):
                runs.put_test(run, row_results(spec, context, result))
    else:
        return ""
    if config["weights"] and result is not None:
        warning = _keep_weights(store, spec, result) or warning
    return warning


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
def _test_errors(method: NamedMethod) -> Iterator[None]:
    """Convert errors of the body to UntestableError, except those that a retry may avoid."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error) or is_of_machine(error):
            raise
        raise UntestableError(error_text(error, method)) from error


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
    """Train a stored seed run again, on as many threads, with its test."""
    threads = int(stored.environment.get("threads", context.threads))
    torch.set_num_threads(threads)
    with _test_errors(context.study.method):
        data = TrainingData(spec, context.tokens[spec.training.max_length])
        result = train(data, graphs=context.graphs)
    run = replace(
        with_result(stored, result),
        seconds=stored.seconds + result.seconds,
        environment=environment(threads, context.gpus),
    )
    return run, result


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
        data = TrainingData(spec, context.tokens[spec.training.max_length])
        result = train(data, test=test, graphs=context.graphs)
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
    splits = context.tokens[spec.training.max_length].splits
    evaluated = {"validation": spec.splits.validation, "test": spec.splits.test}
    labels = {
        name: splits[evaluated[name].split].y[evaluated[name].index]
        for name in result.probabilities
    }
    return RowResults(labels, result.probabilities)
