"""How long the seed runs that a study lacks may take."""

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
"""How much more or less may go through the encoder in a stored seed run that tells the time."""
STORED = "stored seed runs"
MEASURED = "the encoder's pace, timed on this machine"
BACKWARD = 2
"""What a backward pass takes, in forward passes."""
OWN = frozenset({"rows", "fields", "seeds"})
SAME_SIZE = ("protocol", "scale", "train_size", "shots", "unlabelled")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long something may take.

    Attributes:
        seconds: Wall-clock time; None if nothing is known.
        at_once: Seed runs at a time.
        basis: What tells the time, or why nothing does; empty where nothing is to be trained.
    """

    seconds: float | None
    at_once: int
    basis: str


def finished(storage: Storage) -> list[SeedRun]:
    """Return all sound seed runs that did not fail, without predictions, which fill a memory."""
    found = RunStore(storage_folder(storage, make=False)).all()
    return [replace(run, predictions={}) for run in found if run.failure is None]


def estimate(
    prepared: PreparedStudy,
    scheduler: Scheduler,
    threads: int,
    stored: Callable[[], Sequence[SeedRun]],
) -> Estimate:
    """Returns how long the seed runs may take that a study lacks.

    Stored seed runs on as many rows of the same task, by the same method and encoder, tell it where
    there are some of a third to three times the work, in proportion to what goes through the
    encoder; else the encoder is timed.

    Args:
        prepared: The study.
        scheduler: Its scheduler, opened up.
        threads: Torch threads of a seed run.
        stored: Returns seed runs that did not fail, of whatever study; called if any is missing.
    """
    missing = prepared.configs * prepared.study.seeds - len(scheduler.done) - scheduler.skipped
    waiting = [scheduler.waiting[place].configuration for place in scheduler.ready()]
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
    """Returns the seed runs that take as long but for their fields, the newest at the end."""
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
    """Returns the seconds of a seed run of each configuration, as stored ones tell them.

    Empty where one has none like it: of one that is much shorter start-up is the most of its time.
    """
    # All are of one task: rows compare them as well as tokens, and need no tokenizer.
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
    """Returns the seconds of a seed run of each configuration, as the encoder's pace tells them."""
    study = prepared.study
    tasks = sampled(study, prepared.splits[0])
    seconds = []
    for fields in configurations:
        load = _load(prepared, fields, tasks[fields["max_length"]])
        length = (load.trained + load.read) // load.rows
        # The pace changes little with the length: a power of two tells it for many studies.
        short = 1 << (length.bit_length() - 1)
        pace = measured_pace(study.model, study.model_name, study.numerics, threads, short)
        seconds.append(pace.seconds(load))
    return seconds


def _load(prepared: PreparedStudy, fields: Fields, task: TokenizedTask) -> Workload:
    return workload(TrainingData(prepared.study.seed_run_spec(fields, 0, prepared.splits[0]), task))
