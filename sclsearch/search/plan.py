"""Dry run of a search: every value with its source, the missing seed runs, and their time."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sclsearch.canonical import canonical
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.scl import CE
from sclsearch.search.prepare import check_new
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import Storage, storage_folder
from sclsearch.study.study import Study
from sclsearch.tracking.server import check as check_tracking
from sclsearch.tracking.server import find_tracking_uri, masked
from sclsearch.training.device import GraphedUpdates, Update, backend_for, is_out_of_memory
from sclsearch.training.engine import make_update
from sclsearch.training.optimizer import adamw
from sclsearch.training.spec import Numerics, seed_run_costs

STORED = "stored seed runs"
MEASURED = "a timed update of the encoder"
TOKENS = {"cpu": 512, "cuda": 16384}
"""Most tokens of the batch that is timed, by device."""
OWN = frozenset({"rows", "fields", "seeds"})
SAME_SIZE = ("protocol", "scale", "train_size", "shots", "unlabeled")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated time of training and tests."""

    seconds: float | None  # wall-clock; None if no estimate is possible
    at_once: int  # seed runs at a time
    basis: str  # source of the estimate, or why there is none; empty if nothing is missing


def finished(storage: Storage) -> list[SeedRun]:
    """Return all valid seed runs that did not fail, without predictions to save memory."""
    found = RunStore(storage_folder(storage, make=False)).all()
    return [replace(run, predictions={}) for run in found if run.failure is None]


def estimate(scheduler: Scheduler, stored: Callable[[], Sequence[SeedRun]]) -> Estimate:
    """Return the estimated time to train and to test the missing seed runs, after `refill`.

    Stored seed runs count if they differ from the study's only in searched fields, in their seeds
    and in their rows. If there are none, the function times one update of the encoder and
    multiplies it by the number of rows that a seed run reads. `stored` returns successful seed runs
    of any study; it is called only if something is missing.
    """
    at_once, threads = scheduler.at_once, scheduler.options.cpus_per_trial
    queued = [] if scheduler.decided else [one.configuration for one in scheduler.queue.values()]
    numbers = {number for number, _ in scheduler.to_repeat}
    known = queued or [one for one in scheduler.state.configurations if one.number in numbers]
    if not known:
        return Estimate(0.0, at_once, "")
    fields = list({one.number: one.fields for one in known}.values())
    alike = [run for run in stored() if _alike(scheduler, run, fields[0])]
    try:
        each = _stored(scheduler, fields[0], alike) or _measured(scheduler, fields, threads)
    except (SclsearchError, RuntimeError, MemoryError) as error:
        if not isinstance(error, SclsearchError) and not is_out_of_memory(error):
            raise
        return Estimate(None, at_once, first_line(error))
    training, test = (statistics.mean(part) for part in zip(*each, strict=True))
    seed_run = training + scheduler.tests_all * test
    waves, again = (math.ceil(n / at_once) for n in (scheduler.remaining, scheduler.repeated))
    seconds = waves * seed_run + again * (training + test)
    return Estimate(seconds, at_once, STORED if alike else MEASURED)


def _alike(scheduler: Scheduler, run: SeedRun, fields: Fields) -> bool:
    origin, searched = scheduler.record.origin, scheduler.study.space.parameters
    fixed = [
        canonical({name: value for name, value in one.items() if name not in searched})
        for one in (run.identity["fields"], fields)
    ]
    shared = {name: value for name, value in run.identity.items() if name not in OWN}
    return (
        shared == scheduler.record.training
        and all(run.origin.get(name) == origin.get(name) for name in SAME_SIZE)
        and fixed[0] == fixed[1]
        and run.environment.get("threads") == scheduler.options.cpus_per_trial
    )


def _stored(
    scheduler: Scheduler, fields: Fields, runs: Sequence[SeedRun]
) -> list[tuple[float, float]]:
    """Return the seconds of training and of the test of stored seed runs.

    A seed run stores their sum. Its parts are those that its rows should take.
    """
    training, test = seed_run_costs(scheduler.study.seed_run_spec(fields, 0, scheduler.splits[0]))
    each = []
    for run in runs:
        per_row = run.seconds / (training if run.untested else training + test)
        each.append((per_row * training, per_row * test))
    return each


def _measured(
    scheduler: Scheduler, each: Sequence[Fields], threads: int
) -> list[tuple[float, float]]:
    study, splits = scheduler.study, scheduler.splits[0]
    lengths = [len(ids) for ids in study.sampled_ids(splits)]
    seconds = []
    for fields in each:
        spec = study.seed_run_spec(fields, 0, splits)
        length = math.ceil(np.minimum(lengths, spec.training.max_length).mean())
        most = TOKENS[spec.numerics.partition("-")[0]] // length
        rows = max(min(spec.training.batch_size, most), 1)
        shape = rows, length, spec.training.chunk_tokens
        update = _update_seconds(spec.model, spec.model_name, spec.numerics, threads, *shape)
        training, test = seed_run_costs(spec)
        seconds.append((update / rows * training, update / rows * test))
    return seconds


@cache
def _update_seconds(
    folder: Path, name: str, numerics: Numerics, threads: int, rows: int, length: int, chunk: int
) -> float:
    """Return the seconds of one update by cross-entropy; the batch may have any content."""
    backend = backend_for(numerics)
    device = backend.device
    seconds, before = [], torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with backend.stream():
            encoder = load_encoder(folder, name).to(device)
            encoder.chunk_tokens = chunk
            (stage,) = CE(pooling="mean").stages(Training())
            model = Model(encoder, stage.new_modules(encoder, 2)).to(device).train()
            optimizer = adamw(model, stage)
            ids = torch.ones(rows, length, dtype=torch.int64, device=device)
            batch = Batch(ids, ids > 0, ids * 0, ids > 0, ids[:, 0] * 0, (Training().dropout,))
            update: Update = partial(make_update, model, stage, optimizer, backend)
            if device.type == "cuda":  # the second update is captured, the third is replayed
                update = GraphedUpdates(update, chunk)
            for _ in range(3):  # the first update is the slowest
                started = time.perf_counter()
                update(batch)["ce"].item()  # waits for the device
                seconds.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
    return min(seconds)


def plan_prepared(
    scheduler: Scheduler, finished: Callable[[], Sequence[SeedRun]] | None = None
) -> dict[str, Any]:
    """Return the plan of a study that was prepared with `dry=True`, as `--json` prints it.

    In a race, `missing` is an estimate. `repeated` counts the winner's seed runs that train again
    at the end, for test scores or weights. `finished` returns seed runs for the time estimate; None
    skips the estimate.
    """
    study, storage, splits = scheduler.study, scheduler.storage, scheduler.splits[0]
    tracking = find_tracking_uri(scheduler.options.tracking, storage)
    if tracking is not None:
        check_tracking(tracking)
    check_new(scheduler)
    scheduler.refill()
    time = None if finished is None else estimate(scheduler, finished)
    searched, task = study.space.parameters, study.data.task
    rows = (splits.train, splits.validation, splits.test, splits.unlabeled)
    return {
        "study": scheduler.name,
        "task": (task.name, study.data.source),
        "classes": _classes(study) if task.own else {},
        "model": (study.model_name, str(study.model)),
        "numerics": study.numerics,
        "protocol": study.protocol.title,
        "rule": str(study.rule),
        "metric": study.metric,
        "rows": tuple(len(one.index) for one in rows if one is not None),
        "notes": scheduler.notes,
        "fields": {n: one for n, one in study.defaults.items() if n not in searched},
        "searched": {name: parameter.spec() for name, parameter in searched.items()},
        "published": study.space.published,
        "start": study.space.start,
        "space": study.space.note,
        "configurations": scheduler.configs,
        "seeds": study.seeds,
        "race": scheduler.band,
        "stages": scheduler.state.race.stages[:-1],
        "missing": scheduler.remaining,
        "stored": scheduler.done,
        "test_scores": "all" if scheduler.tests_all else "winner",
        "repeated": scheduler.repeated,
        "time": time,
        "storage": str(storage),
        "tracking": tracking and masked(tracking),
        "seed_runs": scheduler.configs * study.seeds,
    }


def _classes(study: Study) -> dict[str, int]:
    train = study.data.splits["train"]
    labels = train.y[: train.labeled]
    return {
        name: int((labels == number).sum()) for number, name in enumerate(study.data.task.labels)
    }
