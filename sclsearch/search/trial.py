"""What a Ray worker does: one seed run or a block of them, stored before it is reported."""

import json
import logging
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Parts
from sclsearch.search.environment import environment
from sclsearch.search.node import model_here, versions_here
from sclsearch.search.stages import KeptStages, shares_stages
from sclsearch.search.study import Study
from sclsearch.search.tokenised import tokenised
from sclsearch.store.places import Storage
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.training.engine import train_block
from sclsearch.training.faults import is_of_machine, is_out_of_memory
from sclsearch.training.job import Job, Work
from sclsearch.training.outcome import Outcome
from sclsearch.training.tokens import TokenisedTask
from sclsearch.training.watch import NonFiniteLossError
from sclsearch.training.weights import save_weights

if TYPE_CHECKING:
    from sclsearch.search.prepare import Prepared

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bench:
    """All that a worker needs for any seed run of a study.

    Attributes:
        study: The study, without its texts.
        name: The study's name.
        storage: Where seed runs and weights go.
        tokens: The task, tokenised, by `max_length`.
        parts: Rows by replicate.
        threads: Torch threads of a seed run.
        origin: What `rerun` needs to train a seed run again.
        shares: Whether ends of stages are kept for configurations that share them.
        versions: Those of the driver, which a worker's must equal.
    """

    study: Study
    name: str
    storage: Storage
    tokens: Mapping[int, TokenisedTask]
    parts: Mapping[int, Parts]
    threads: int
    origin: Mapping[str, Any]
    shares: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)


def bench_of(prepared: "Prepared", threads: int) -> Bench:
    """Returns what the seed runs of a prepared study share, with as many torch threads each.

    Ray hands it to every trial: its arrays lie in shared memory, its texts would be copied.
    """
    study, source = prepared.study, prepared.study.paraphrases
    return Bench(
        study=replace(
            study,
            data=replace(study.data, splits={}),
            paraphrases=source and replace(source, rows={}),
        ),
        name=prepared.store.name,
        storage=prepared.storage,
        tokens=tokenised(study, prepared.parts.values()),
        parts=prepared.parts,
        threads=threads,
        origin=prepared.record.origin,
        shares=shares_stages(study, prepared.parts[0]),
        versions=versions_here(),
    )


def seed_run_trial(config: Mapping[str, Any], bench: Bench) -> None:
    """Trains the seed runs that are not stored; the trainable that Ray Tune calls.

    Args:
        config: `configuration`, a number, `replicates`, numbers of one or of those of a block,
            `fields`, JSON, and `deadline`, Unix seconds: on a cluster hours may have passed since
            the seed runs were asked for.
        bench: What all trials of the study share.
    """
    from ray import tune

    if time.time() > config["deadline"]:
        tune.report({"key": "", "late": True})
        return
    # A worker trains many seed runs; Ray gives it the threads of its first trial only.
    torch.set_num_threads(bench.threads)
    runs, store = RunStore(bench.storage), StudyStore(bench.storage, bench.name)
    study = replace(bench.study, model=model_here(bench.study, store, bench.versions))
    fields = json.loads(config["fields"])
    block = [
        study.job(fields, number, bench.parts[number])
        for number in study.block(config["replicates"][0])
    ]
    jobs = {job.key: job for job in block}
    asked = [job.replicate.number in config["replicates"] for job in block]
    key = block[asked.index(True)].key
    try:
        missing = [n for n, job in enumerate(block) if asked[n] and runs.get(job.key) is None]
        found = attempt(block, bench, config["configuration"], missing) if missing else ()
        for run, outcome in found:
            if outcome is not None:
                _keep_weights(store, jobs[run.key], outcome)
            runs.put(run)
        tune.report({"key": key, "out_of_memory": ""})
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        torch.cuda.empty_cache()
        tune.report({"key": key, "out_of_memory": _last_line(error) or "out of memory"})


def _keep_weights(store: StudyStore, job: Job, outcome: Outcome) -> None:
    """Keeps weights if that is possible: `rerun` makes them again, the figures come first."""
    try:
        store.keep_weights(job.key, partial(save_weights, outcome=outcome, job=job))
    except (OSError, SclsearchError) as error:
        _LOG.warning("seed run %s: its weights cannot be kept: %s", job.key[:12], error)


def attempt(
    block: Sequence[Job], bench: Bench, configuration: int, taken: Sequence[int] = (0,)
) -> Iterator[tuple[SeedRun, Outcome | None]]:
    """Yields each seed run once it is trained or has failed, and what training left.

    Training is deterministic, so what it raises is final, except what is the machine's: running out
    of memory, which depends on the neighbours, is raised when the others are done, and a fault of
    files or GPU at once, so that Ray ends this worker.

    Args:
        block: One, or those of a whole block.
        bench: What they share.
        configuration: The configuration's number.
        taken: Which of the block are to be trained.
    """
    store = StudyStore(bench.storage, bench.name)
    shelf = KeptStages(store, bench.threads) if bench.shares else None
    tokens = bench.tokens[block[0].training.max_length]
    lacking: Exception | None = None
    runs = _begun([block[seat] for seat in taken], bench, configuration)
    each = train_block([Work(job, tokens) for job in block], taken, shelf)
    for run, found in zip(runs, each, strict=True):
        if isinstance(found, Outcome):
            yield with_outcome(run, found), found
        elif is_out_of_memory(found):
            lacking = found
        elif is_of_machine(found):
            raise found
        else:
            yield _failed(run, found), None
    if lacking is not None:
        raise lacking


def _begun(jobs: Sequence[Job], bench: Bench, configuration: int) -> list[SeedRun]:
    """Returns the seed runs of some jobs, as yet without figures."""
    started = time.time()
    return [
        SeedRun(
            key=job.key,
            identity=job.identity,
            origin={
                **bench.origin,
                "configuration": configuration,
                "replicate": job.replicate.number,
            },
            started=started,
            environment=environment(bench.threads),
        )
        for job in jobs
    ]


def with_outcome(run: SeedRun, outcome: Outcome) -> SeedRun:
    """Returns the seed run with its figures."""
    return replace(
        run,
        origin=_with_together(run.origin, outcome.together),
        notes=outcome.notes,
        stages=tuple(outcome.stages),
        evaluations=tuple(outcome.evaluations),
        kept=outcome.kept,
        test=outcome.test,
        predictions=outcome.predictions,
        seconds=outcome.seconds,
    )


def _failed(run: SeedRun, error: Exception) -> SeedRun:
    if isinstance(error, NonFiniteLossError):
        failure = Failure("non-finite", str(error))
        run = replace(run, origin=_with_together(run.origin, error.together))
    else:
        failure = Failure("raised", f"{_last_line(error)} ({_place(error)})")
    return replace(run, seconds=time.time() - run.started, failure=failure)


def _with_together(origin: Mapping[str, Any], together: Sequence[int]) -> Mapping[str, Any]:
    """Returns the origin of a seed run with the replicates that `rerun` must train with it."""
    return {**origin, "together": [*together]} if together else origin


def _last_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def _place(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
