"""Dry run of a search: every value with its source, the missing seed runs, and their time."""

import math
import statistics
import time
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError, first_line
from sclsearch.methods.base import Batch, Model, Training
from sclsearch.methods.scl import CE
from sclsearch.search.prepare import check_new
from sclsearch.search.scheduler import Scheduler
from sclsearch.study.study import Study
from sclsearch.tracking.server import find_tracking_uri, masked, prepare_database
from sclsearch.training.device import backend_for, is_out_of_memory, used_threads
from sclsearch.training.engine import make_update
from sclsearch.training.graphs import GraphedUpdates, Update
from sclsearch.training.optimizer import adamw
from sclsearch.training.spec import Numerics, seed_run_costs

TOKENS = {"cpu": 512, "cuda": 16384}
"""Most tokens of the batch that is timed, by device."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated time of training and tests."""

    seconds: float | None  # wall-clock; None if no estimate is possible
    at_once: int  # seed runs at a time
    basis: str  # source of the estimate, or why there is none; empty if nothing is missing


def estimate(scheduler: Scheduler) -> Estimate:
    """Return the estimated time to train and to test the missing seed runs, after `refill`.

    The function times one update of the encoder and multiplies it by the number of rows that a seed
    run reads.
    """
    at_once = scheduler.at_once
    waves, again = (math.ceil(n / at_once) for n in (scheduler.remaining, scheduler.repeated))
    if not waves + again:
        return Estimate(0.0, at_once, "")
    try:
        each = _measured(scheduler)
    except (SclsearchError, RuntimeError, MemoryError) as error:
        if not isinstance(error, SclsearchError) and not is_out_of_memory(error):
            raise
        return Estimate(None, at_once, first_line(error))
    training, test = (statistics.mean(part) for part in zip(*each, strict=True))
    seconds = waves * (training + scheduler.tests_all * test) + again * (training + test)
    return Estimate(seconds, at_once, "a timed update of the encoder")


def _measured(scheduler: Scheduler) -> list[tuple[float, float]]:
    """Return the seconds of training and of the test of a seed run of each configuration."""
    study, splits, cpus = scheduler.study, scheduler.splits[0], scheduler.options.cpus_per_trial
    lengths = [len(ids) for ids in study.sampled_ids(splits)]
    seconds = []
    for configuration in scheduler.state.configurations:
        spec = study.seed_run_spec(configuration.fields, 0, splits)
        length = math.ceil(np.minimum(lengths, spec.training.max_length).mean())
        most = TOKENS[spec.numerics.partition("-")[0]] // length
        rows = max(min(spec.training.batch_size, most), 1)
        shape = rows, length, spec.training.chunk_tokens
        update = _update_seconds(spec.model, spec.model_name, spec.numerics, cpus, *shape)
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
    seconds = []
    with used_threads(threads), backend.stream():
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
    return min(seconds)


def plan_prepared(scheduler: Scheduler, *, timed: bool = False) -> dict[str, Any]:
    """Return the plan of a study that was prepared with `dry=True`, as `--json` prints it.

    In a race, `missing` is an estimate. `repeated` counts the winner's seed runs that train again
    at the end, for test scores or weights. Only if `timed` has the plan an estimate of the time.
    """
    study, storage, splits = scheduler.study, scheduler.storage, scheduler.splits[0]
    tracking = find_tracking_uri(scheduler.options.tracking, storage)
    if tracking is not None:
        prepare_database(tracking, dry=True)
    check_new(scheduler)
    scheduler.refill()
    time = estimate(scheduler) if timed else None
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
