"""How many replicates a GPU trains fastest as one batched program, measured on a few updates."""

import gc
import logging
import time
from dataclasses import replace
from itertools import islice

import numpy as np
import torch

from sclsearch.protocols.replicates import Seat
from sclsearch.tasks.base import Index
from sclsearch.training.faults import is_out_of_memory
from sclsearch.training.job import Work
from sclsearch.training.learner import Learner
from sclsearch.training.lockstep import NotInLockstepError, check_lockstep, program_of

SIZES = (2, 4, 5, 8, 10, 16)
UPDATES = 8
WARM_UP = 3
WORTH = 1.05
"""How many times the pace of a smaller block a larger one must have."""

log = logging.getLogger(__name__)


def fastest_lockstep(work: Work, seeds: int, sizes: tuple[int, ...] = SIZES) -> int:
    """Returns S, 1 where lockstep does not pay or is not possible.

    Measured is the first stage. Each size also trains a batch of the longest rows, so that what
    is taken fits into the memory with the usual fields; larger batches are trained in parts.

    Args:
        work: Any seed run.
        seeds: Replicates of a configuration: a larger block would not be full.
        sizes: Sizes to be measured.
    """
    larger = [size for size in sizes if size <= seeds]
    if not larger:
        return 1
    best, pace = 1, 0.0
    for size in (1, *larger):
        try:
            found = _pace(work, size)
        except NotInLockstepError as error:
            log.warning("lockstep: seed runs are trained one by one, as %s", error)
            break
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            break
        finally:
            gc.collect()
            torch.cuda.empty_cache()
        if found > WORTH * pace:
            best, pace = size, found
    return best


def _pace(work: Work, size: int) -> float:
    """Returns updates of a seed run in a second, with S of them at a time.

    Raises:
        NotInLockstepError: They cannot be one batched program.
        OutOfMemoryError: They need too much memory.
    """
    replicate = work.job.replicate
    seats = [None] if size == 1 else [Seat(size, number, 0) for number in range(size)]
    works = [
        replace(work, job=replace(work.job, replicate=replace(replicate, seat=seat)))
        for seat in seats
    ]
    learners = [Learner(one, work.occurring) for one in works]
    turn = work.job.turns[0]
    if size > 1:
        check_lockstep(works, learners[0].encoder)
    for learner in learners:
        learner.enter(turn)
    program = program_of(learners, works)
    rates = turn.stage.rates_at(0)
    batches = [_longest(learners[0]), *islice(work.order(turn), UPDATES - 1)]
    device = learners[0].device
    for index in (batches * WARM_UP)[:WARM_UP]:
        program.update([index] * size, rates, 0.0)
    started = _now(device)
    for index in batches:
        program.update([index] * size, rates, 0.0)
    return size * len(batches) / (_now(device) - started)


def _longest(learner: Learner) -> Index:
    """Returns the rows of a batch of the longest texts."""
    rows = learner.rows.index
    order = np.argsort(learner.labelled.lengths_of(rows), kind="stable")
    return rows[order[-learner.stage.training.batch_size :]]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
