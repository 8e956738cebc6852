"""Estimate of the time to train the missing seed runs of a study."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import Storage, storage_folder
from sclsearch.study.lengths import row_by_row, sampled
from sclsearch.study.prepared import PreparedStudy
from sclsearch.training.pace import measured_pace
from sclsearch.training.spec import TrainingData
from sclsearch.training.tokens import TokenizedTask
from sclsearch.training.workload import Workload, workload

NEWEST = 9
FACTOR = 3
"""Largest ratio, up or down, between the cost of a stored seed run and of the one estimated."""
STORED = "stored seed runs"
MEASURED = "the encoder's pace, timed on this machine"
BACKWARD = 2
"""Cost of a backward pass, in forward passes."""
OWN = frozenset({"rows", "fields", "seeds"})
SAME_SIZE = ("protocol", "scale", "train_size", "shots", "unlabelled")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated training time.

    Attributes:
        seconds: Wall-clock seconds; None if no estimate is possible.
        at_once: Number of seed runs at a time.
        basis: Source of the estimate, or the reason why there is none; empty if nothing is missing.
    """

    seconds: float | None
    at_once: int
    basis: str


def finished(storage: Storage) -> list[SeedRun]:
    """Return all valid seed runs that did not fail, without predictions to save memory."""
    found = RunStore(storage_folder(storage, make=False)).all()
    return [replace(run, predictions={}) for run in found if run.failure is None]


def estimate(
    prepared: PreparedStudy,
    scheduler: Scheduler,
    threads: int,
    stored: Callable[[], Sequence[SeedRun]],
) -> Estimate:
    """Return the estimated time to train the missing seed runs of a study.

    The estimate uses stored seed runs of the same task, row count, method and encoder. Only those
    of a third to three times the cost count, and their time is scaled by cost. If a configuration
    has none, the function times the encoder instead.

    Args:
        prepared: The study.
        scheduler: The study's scheduler, after `refill`.
        threads: Torch threads per seed run.
        stored: Returns successful seed runs of any study; called only if a seed run is missing.
    """
    finished_runs = len(scheduler.state.seed_runs)
    missing = prepared.configs * prepared.study.seeds - finished_runs - scheduler.skipped
    waiting = [scheduler.queue[run_id].configuration for run_id in scheduler.ready()]
    if not waiting:
        return Estimate(0.0, prepared.at_once, "")
    fields = {configuration.number: configuration.fields for configuration in waiting}.values()
    alike = _alike(prepared, threads, stored())
    try:
        told = _by_stored(prepared, fields, alike)
        each = told or _by_measuring(prepared, fields, threads)
        seconds = statistics.mean(each) * math.ceil(missing / prepared.at_once)
    except SclsearchError as error:
        return Estimate(None, prepared.at_once, str(error).partition("\n")[0])
    return Estimate(seconds, prepared.at_once, STORED if told else MEASURED)


def _alike(prepared: PreparedStudy, threads: int, stored: Sequence[SeedRun]) -> list[SeedRun]:
    """Return stored seed runs that differ from the study's only in their fields, newest last."""
    origin, shared = prepared.record.origin, prepared.record.training
    found = [
        run
        for run in stored
        if {name: run.identity[name] for name in run.identity.keys() - OWN} == shared
        and all(run.origin.get(name) == origin.get(name) for name in SAME_SIZE)
        and run.environment.get("threads") == threads
    ]
    return sorted(found, key=lambda run: run.started)


def _by_stored(
    prepared: PreparedStudy, configurations: Iterable[Fields], alike: Sequence[SeedRun]
) -> list[float]:
    """Return the seconds per seed run of each configuration, estimated from stored seed runs.

    The result is empty if a configuration has no similar seed run. Much shorter seed runs do not
    count, because start-up takes most of their time.
    """
    # All seed runs have the same task, so row counts compare them as well as token counts do. Row
    # counts need no tokenizer.
    task = row_by_row(prepared.study)
    costs: dict[str, int] = {}

    def cost(fields: Fields) -> int:
        key = canonical(fields)
        if key not in costs:
            load = _load(prepared, fields, task)
            costs[key] = load.read + (1 + BACKWARD) * load.trained
        return costs[key]

    known = [(run.seconds, cost(run.identity["fields"])) for run in alike]
    each = []
    for wanted in map(cost, configurations):
        near = [(s, c) for s, c in known if wanted / FACTOR <= c <= wanted * FACTOR]
        if not near:
            return []
        each.append(statistics.median(s * (wanted / c) for s, c in near[-NEWEST:]))
    return each


def _by_measuring(
    prepared: PreparedStudy, configurations: Iterable[Fields], threads: int
) -> list[float]:
    """Return the seconds per seed run of each configuration, estimated from the encoder's speed."""
    study = prepared.study
    tasks = sampled(study, prepared.splits[0])
    seconds = []
    for fields in configurations:
        load = _load(prepared, fields, tasks[fields["max_length"]])
        length = (load.trained + load.read) // load.rows
        # Speed changes little with length; rounding to a power of two lets many studies share one
        # timing.
        short = 1 << (length.bit_length() - 1)
        pace = measured_pace(study.model, study.model_name, study.numerics, threads, short)
        seconds.append(pace.seconds(load))
    return seconds


def _load(prepared: PreparedStudy, fields: Fields, task: TokenizedTask) -> Workload:
    return workload(TrainingData(prepared.study.seed_run_spec(fields, 0, prepared.splits[0]), task))
