"""Estimate of the time to train and to test the missing seed runs of a study."""

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
from sclsearch.methods.ce import CE
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import Storage, storage_folder
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.tokenized import sampled_ids
from sclsearch.training.cost import row_costs
from sclsearch.training.device import backend_for, is_out_of_memory
from sclsearch.training.engine import make_update
from sclsearch.training.graphs import GraphedUpdates, Update
from sclsearch.training.optimizer import adamw
from sclsearch.training.spec import Numerics

STORED = "stored seed runs"
MEASURED = "a timed update of the encoder"
TOKENS = {"cpu": 512, "cuda": 16384}
"""Most tokens of the batch that is timed, by device."""
OWN = frozenset({"rows", "fields", "seeds"})
SAME_SIZE = ("protocol", "scale", "train_size", "shots", "unlabeled")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated time of training and tests.

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
    """Return the estimated time to train and to test the missing seed runs of a study.

    Stored seed runs count if they differ from the study's only in searched fields, in their seeds
    and in their rows. If there are none, the function times one update of the encoder and
    multiplies it by the number of rows that a seed run reads.

    Args:
        prepared: The study.
        scheduler: Its scheduler, after `refill`.
        threads: Torch threads per seed run.
        stored: Returns successful seed runs of any study; called only if something is missing.
    """
    queued = [] if scheduler.decided else [one.configuration for one in scheduler.queue.values()]
    numbers = {number for number, _ in scheduler.to_repeat}
    known = queued or [one for one in scheduler.state.configurations if one.number in numbers]
    if not known:
        return Estimate(0.0, prepared.at_once, "")
    fields = list({one.number: one.fields for one in known}.values())
    alike = [run for run in stored() if _alike(prepared, run, fields[0], threads)]
    basis = STORED if alike else MEASURED
    try:
        each = _stored(prepared, fields[0], alike) or _measured(prepared, fields, threads)
    except (SclsearchError, RuntimeError, MemoryError) as error:
        if not isinstance(error, SclsearchError) and not is_out_of_memory(error):
            raise
        return Estimate(None, prepared.at_once, first_line(error))
    training, test = (statistics.mean(part) for part in zip(*each, strict=True))
    seed_run = training + prepared.tests_all * test
    waves, again = (
        math.ceil(n / prepared.at_once) for n in (scheduler.remaining, scheduler.repeated)
    )
    seconds = waves * seed_run + again * (training + test)
    return Estimate(seconds, prepared.at_once, basis)


def _alike(prepared: PreparedStudy, run: SeedRun, fields: Fields, threads: int) -> bool:
    origin, searched = prepared.record.origin, prepared.study.space.parameters
    fixed = [
        canonical({name: value for name, value in one.items() if name not in searched})
        for one in (run.identity["fields"], fields)
    ]
    return (
        {n: value for n, value in run.identity.items() if n not in OWN} == prepared.record.training
        and all(run.origin.get(name) == origin.get(name) for name in SAME_SIZE)
        and fixed[0] == fixed[1]
        and run.environment.get("threads") == threads
    )


def _stored(
    prepared: PreparedStudy, fields: Fields, runs: Sequence[SeedRun]
) -> list[tuple[float, float]]:
    """Return the seconds of training and of the test of stored seed runs.

    A seed run stores their sum. Its parts are those that its rows should take.
    """
    training, test = row_costs(prepared.study.seed_run_spec(fields, 0, prepared.splits[0]))
    each = []
    for run in runs:
        per_row = run.seconds / (training if run.untested else training + test)
        each.append((per_row * training, per_row * test))
    return each


def _measured(
    prepared: PreparedStudy, each: Sequence[Fields], threads: int
) -> list[tuple[float, float]]:
    """Return the seconds of training and of the test of configurations, by a timed update."""
    study, splits = prepared.study, prepared.splits[0]
    lengths = [len(ids) for ids in sampled_ids(study, splits)]
    seconds = []
    for fields in each:
        spec = study.seed_run_spec(fields, 0, splits)
        length = math.ceil(np.minimum(lengths, spec.training.max_length).mean())
        most = TOKENS[spec.numerics.partition("-")[0]] // length
        rows = max(min(spec.training.batch_size, most), 1)
        shape = rows, length, spec.training.chunk_tokens
        update = _update_seconds(spec.model, spec.model_name, spec.numerics, threads, *shape)
        training, test = row_costs(spec)
        seconds.append((update / rows * training, update / rows * test))
    return seconds


@cache
def _update_seconds(
    folder: Path, name: str, numerics: Numerics, threads: int, rows: int, length: int, chunk: int
) -> float:
    """Return the seconds of one update by cross-entropy; the content of the batch is no matter."""
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
