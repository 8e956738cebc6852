"""Trains seed runs: every stage of a method, evaluation, best weights, one test."""

import gc
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch

from sclsearch.randomness import seed_for
from sclsearch.training.batches import updates_of, updates_per_epoch
from sclsearch.training.faults import is_out_of_memory
from sclsearch.training.job import Work
from sclsearch.training.learner import Learner
from sclsearch.training.lockstep import NotInLockstepError, check_lockstep, program_of
from sclsearch.training.optimiser import rate_factor
from sclsearch.training.outcome import Outcome
from sclsearch.training.schedule import evaluation_points, evenly
from sclsearch.training.shared import Shelf, end_identity, take_or_train
from sclsearch.training.turn import Turn
from sclsearch.training.watch import NonFiniteLossError, Reading, TermWatch

Found = Outcome | Exception
"""What a seed run leaves, or why it leaves nothing."""

READINGS = 20
"""How often at most the losses of a stage that is not evaluated are noted."""


class _AllFailedError(Exception):
    """No seed run goes on; each has its failure."""


def train(work: Work, shelf: Shelf | None = None) -> Outcome:
    """Trains and evaluates one seed run.

    Args:
        work: The seed run.
        shelf: Where stages are kept that several configurations share; None trains them all.

    Raises:
        NonFiniteLossError: A term of the loss is not finite; names term, stage, epoch and update.
        SclsearchError: The encoder cannot do what the method needs.
    """
    (found,) = train_block([work], shelf=shelf)
    if isinstance(found, Exception):
        raise found
    return found


def train_block(
    works: Sequence[Work], taken: Sequence[int] | None = None, shelf: Shelf | None = None
) -> Iterator[Found]:
    """Trains and evaluates seed runs of one configuration; yields what each leaves once it is done.

    Where their replicates have seats, they are one batched program. If that needs too much memory
    they are trained half by half, with the noise of the whole block; if it is not possible, one
    after the other. A seed run that raises ends none of the others.

    Args:
        works: The seed runs of a whole block, by seat; one alone where its replicate has none.
        taken: Seats of those to be trained, ascending; None is all.
        shelf: Where stages are kept that several configurations share; a batched program trains
            them all.

    Raises:
        ValueError: Some of the block are missing.
    """
    seat = works[0].job.replicate.seat
    if len(works) != (seat.block if seat else 1):
        raise ValueError("a block must be whole; what is to be trained of it is said by `taken`")
    seats = tuple(range(len(works))) if taken is None else tuple(taken)
    reason, found = "", []
    try:
        found = _attempt(works, seats, shelf)
    except NotInLockstepError as error:
        reason = str(error)
    # By now the error is gone, and with it what its traceback held of the block.
    if reason:
        note = f"lockstep: trained one by one, as {reason}"
        for number in seats:
            yield _with_note(_attempt([_unseated(works[number])], (0,), shelf)[0], note)
    elif len(seats) > 1 and isinstance(found[0], Exception) and is_out_of_memory(found[0]):
        gc.collect()
        torch.cuda.empty_cache()
        half = len(seats) // 2
        yield from train_block(works, seats[:half], shelf)
        yield from train_block(works, seats[half:], shelf)
    else:
        yield from found


def _attempt(works: Sequence[Work], taken: Sequence[int], shelf: Shelf | None) -> list[Found]:
    """Returns what training leaves of each, in the place of all of them the error that it raises.

    Raises:
        NotInLockstepError: They cannot be one batched program.
    """
    try:
        return _train(works, taken, shelf)
    except NotInLockstepError:
        raise
    except Exception as error:
        # Its frames would hold the models beside those of the next seed run.
        traceback.clear_frames(error.__traceback__)
        return [error] * len(taken)


def _unseated(work: Work) -> Work:
    job = work.job
    return replace(work, job=replace(job, replicate=replace(job.replicate, seat=None)))


def _with_note(found: Found, note: str) -> Found:
    if isinstance(found, Outcome):
        found.notes = (*found.notes, note)
    return found


def _train(works: Sequence[Work], taken: Sequence[int], shelf: Shelf | None) -> list[Found]:
    started = time.perf_counter()
    job = works[0].job
    occurring = np.unique(np.concatenate([work.occurring for work in works]))
    learners = [Learner(works[seat], occurring) for seat in taken]
    together: tuple[int, ...] = ()
    if job.replicate.seat is not None:
        check_lockstep(works, learners[0].encoder)
        shelf = None
        together = tuple(one.job.replicate.number for one in learners)
    one, saved = learners[0], 0.0
    with suppress(_AllFailedError):
        for turn in job.turns:
            run = _StageRun(works, learners, turn).run
            identity = end_identity(job, turn)
            saved += take_or_train(shelf, identity, one.encoder, one.outcome.stages, run)
    seconds = time.perf_counter() - started + saved
    found = [learner.failure or learner.outcome for learner in learners]
    for learner, left in zip(learners, found, strict=True):
        learner.outcome.seconds = seconds / len(learners)
        left.together = together
    return [*found]


class _StageRun:
    """One stage of some seed runs; the last stage of a method is evaluated."""

    def __init__(self, works: Sequence[Work], learners: Sequence[Learner], turn: Turn) -> None:
        self.works, self.learners = works, learners
        self.turn, self.stage = turn, turn.stage
        self.job, rows = works[0].job, len(works[0].rows_of(self.stage).index)
        self.per_epoch = updates_per_epoch(rows, self.stage.training)
        self.total = updates_of(rows, self.stage.training, self.job.most_updates)

    def run(self) -> None:
        """Trains the stage; in the last one evaluates, and tests the kept weights once.

        Raises:
            _AllFailedError: No seed run goes on.
        """
        for learner in self.learners:
            learner.enter(self.turn)
        replicate = self.job.replicate
        noise = replicate.noise if replicate.seat is None else replicate.seat.noise
        torch.manual_seed(seed_for(noise, self.turn.purpose("noise")))
        self.program = program_of(self.learners, self.works)
        watch = TermWatch(self.stage.name, self.per_epoch, len(self.learners))
        points = (
            evaluation_points(self.job.evaluate, self.per_epoch, self.total)
            if self.turn.last
            else evenly(self.total, READINGS)
        )
        orders = zip(*(work.order(self.turn) for work in self.works), strict=True)
        for update, rows in enumerate(orders):
            factor = self._factor(update)
            watch.see(update, self.program.update(rows, self.stage.rates_at(update), factor))
            self._decay(factor)
            if update + 1 in points:
                self._look(update + 1, watch.read())
        self._end()

    def _factor(self, update: int) -> float:
        warmup = round(self.total * self.stage.training.warmup_ratio)
        return rate_factor(update, warmup, self.total)

    def _decay(self, factor: float) -> None:
        """Notes what an update does to the embeddings that are left out."""
        training = self.stage.training
        for learner in self.learners:
            if learner.cut is not None:
                learner.cut.decay *= 1 - training.learning_rate * factor * training.weight_decay

    def _look(self, update: int, readings: Sequence[Reading]) -> None:
        """Notes losses, and in the last stage evaluates."""
        for learner, losses in zip(self.learners, readings, strict=True):
            if isinstance(losses, NonFiniteLossError):
                learner.failure = learner.failure or losses
            elif not self.turn.last:
                learner.note(update / self.per_epoch, update, losses)
        if self.turn.last and self._going:
            self._evaluate(update, readings)
        if not self._going:
            raise _AllFailedError

    def _evaluate(self, update: int, readings: Sequence[Reading]) -> None:
        found = self.program.predict("validation")
        for learner, losses, predictions in zip(self.learners, readings, found, strict=True):
            if learner.failure or isinstance(losses, NonFiniteLossError):
                continue
            if isinstance(predictions, NonFiniteLossError):
                learner.failure = predictions
            else:
                epoch, final = update / self.per_epoch, update == self.total
                learner.evaluate(epoch, update, losses, predictions, final=final)

    def _end(self) -> None:
        if self.turn.last:
            for learner in self._going:
                learner.go_back()
        found = self.program.predict("test") if self.turn.last else []
        self.program.release()
        for learner in self.learners:
            learner.leave()
        for learner, predictions in zip(self.learners, found, strict=False):
            if isinstance(predictions, NonFiniteLossError):
                learner.failure = learner.failure or predictions
            elif not learner.failure:
                learner.finish(predictions)

    @property
    def _going(self) -> list[Learner]:
        return [learner for learner in self.learners if learner.failure is None]
