"""Several seed runs of one configuration as one batched program: their weights are stacked.

A step of a small encoder on a GPU waits for the launch of its kernels; with S replicates in one
program there are as many launches as with one. The forward goes through `torch.func.vmap`, the
backward is autograd's own, so a weight that a method does not read gets no gradient here either.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.gradient_cache import LIMIT
from sclsearch.encoders.seats import SeatNoise, Seats
from sclsearch.methods.base import Batch, Model, Result, Stage, Terms
from sclsearch.tasks.base import Index
from sclsearch.training.alone import Alone
from sclsearch.training.batches import by_length, collate
from sclsearch.training.evaluation import (
    EVALUATION_BATCH,
    ONE_VIEW,
    Predictions,
    answers,
    in_order,
)
from sclsearch.training.faults import is_of_machine, is_out_of_memory
from sclsearch.training.job import Work
from sclsearch.training.learner import Learner
from sclsearch.training.optimiser import adamw, clip_each, set_rate
from sclsearch.training.precision import autocast, autocast_named, linear_biases
from sclsearch.training.tokens import Tokens
from sclsearch.training.watch import NonFiniteLossError

Read = tuple[str, Tokens, Index]
"""Rows with the split that they are of, and what is read of them."""

TENSORS = ("ids", "mask", "types", "content", "y")


class NotInLockstepError(Exception):
    """Some seed runs cannot be one batched program; the message says why."""


class Lockstep:
    """The updates and predictions of several seed runs in one stage.

    Args:
        learners: The seed runs.
        works: Those of the whole block: batches are padded as its longest text wants it, so that
            as much noise is drawn whoever is there.
    """

    def __init__(self, learners: Sequence[Learner], works: Sequence[Work]) -> None:
        self.learners, self.works = learners, works
        taken = [seat.number for one in learners if (seat := one.job.replicate.seat)]
        self.seats = Seats(len(works), tuple(taken))
        self.model, self.stage = learners[0].model, learners[0].stage
        self.device, self.task = learners[0].device, learners[0].work.tokens
        self.split = learners[0].rows.split
        models = [one.model for one in learners]
        self.stacks = _stacked(models, parts_alone=self.stage.cached)
        self.biases = linear_biases(self.model)
        of_parameter = {p: self.stacks.get(name, p) for name, p in self.model.named_parameters()}
        self.optimiser = adamw(self.model, self.stage, of_parameter)

    def update(self, rows: Sequence[Index], rates: tuple[float, ...], factor: float) -> Terms:
        """Does one update of each seed run; returns the terms of their losses, `[S]` each.

        Args:
            rows: Rows of the batch of each of the block, there or not.
            rates: Dropout rate of each view.
            factor: Share of the peak learning rate.
        """
        block = [
            (self.split, *one.read(self.stage, index))
            for one, index in zip(self.works, rows, strict=True)
        ]
        width = max(int(tokens.lengths_of(index).max()) for _, tokens, index in block)
        read = [block[seat] for seat in self.seats.taken]
        set_rate(self.optimiser, factor)
        self.model.train()
        noise = nullcontext() if self.seats.all_taken else SeatNoise(self.seats)
        with noise:
            losses, terms = self._each(self._terms, read, rates, width)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        gradients = [stack.grad for stack in self.stacks.values() if stack.grad is not None]
        clip_each(gradients, self.stage.training.max_grad_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return terms

    @torch.no_grad()
    def predict(self, which: str) -> list[Predictions | NonFiniteLossError]:
        """Returns the predictions of each on `validation` or `test` rows, or why there are none."""
        self.model.eval()
        scores_of = self.learners[0].job.method.scores
        rows = [one.evaluated(which) for one in self.learners]
        tokens = self.task.splits[rows[0].split]
        orders = [list(by_length(tokens.lengths_of(r.index), EVALUATION_BATCH)) for r in rows]
        outputs = []
        for chosen in zip(*orders, strict=True):
            read = [(r.split, tokens, r.index[c]) for r, c in zip(rows, chosen, strict=True)]
            outputs.append(self._each(scores_of, read, ONE_VIEW).float())
        found: list[Predictions | NonFiniteLossError] = []
        each = torch.cat(outputs, dim=1).cpu().numpy()
        for own, order, scores in zip(rows, orders, each, strict=True):
            try:
                found.append(answers(in_order(scores, order), own, self.task))
            except NonFiniteLossError as error:
                found.append(error.with_traceback(None))  # it would hold the models
        return found

    def release(self) -> None:
        """Gives each seed run weights of its own again."""
        for one in self.learners:
            for name, tensor in _tensors(one.model).items():
                if name in self.stacks:
                    tensor.data = tensor.detach().clone()

    def _terms(self, model: Model, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        terms = self.stage.terms(model, batch)
        return self.stage.loss(terms), dict(terms)

    def _each(
        self,
        function: Callable[[Model, Batch], Result],
        read: Sequence[Read],
        rates: tuple[float, ...],
        width: int | None = None,
    ) -> Result:
        """Returns a function of model and batch for all seed runs at once, tensors `[S, ...]`.

        Raises:
            NotInLockstepError: It cannot be called so.
        """
        tensors = self._batch(read, width)
        try:
            with autocast(self.device), self.model.encoder.seated(self.seats):
                found: Result = torch.vmap(
                    partial(self._one, function, rates), randomness="different"
                )(autocast_named(self.stacks, self.biases, self.device), tensors)
        except Exception as error:  # if it is no matter of vmap it comes again without
            if is_out_of_memory(error) or is_of_machine(error):
                raise
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise NotInLockstepError(reason) from error
        return found

    def _one(
        self,
        function: Callable[[Model, Batch], Result],
        rates: tuple[float, ...],
        weights: dict[str, Tensor],
        tensors: dict[str, Tensor],
    ) -> Result:
        batch = Batch(**tensors, rates=rates)
        found: Result = functional_call(self.model, weights, (function, batch))
        return found

    def _batch(self, read: Sequence[Read], width: int | None) -> dict[str, Tensor]:
        """Returns the tensors of all batches, `[S, B, ...]`, padded to one length."""
        if self.learners[0].features is None:
            index = np.concatenate([index for _, _, index in read])
            batch = collate(read[0][1], index, self.task.pad, ONE_VIEW, self.device, width)
            return {name: getattr(batch, name).unflatten(0, (len(read), -1)) for name in TENSORS}
        batches = [
            one.features.batch(tokens, split, index)
            for one, (split, tokens, index) in zip(self.learners, read, strict=True)
            if one.features is not None
        ]
        names = (*TENSORS, "features")
        return {name: torch.stack([getattr(batch, name) for batch in batches]) for name in names}


def program_of(learners: Sequence[Learner], works: Sequence[Work]) -> Alone | Lockstep:
    """Returns how some seed runs of a block are trained, or one that has no seat."""
    if learners[0].job.replicate.seat is None:
        return Alone(learners[0])
    return Lockstep(learners, works)


def check_lockstep(works: Sequence[Work], encoder: Encoder) -> None:
    """Raises NotInLockstepError if the seed runs of a block cannot be one batched program."""
    job = works[0].job
    stages = job.method.stages(job.training)
    shapes = {
        tuple(
            (rows.split, len(rows.index))
            for rows in (
                *(one.rows_of(stage) for stage in stages),
                one.job.parts.validation,
                one.job.parts.test,
            )
        )
        for one in works
    }
    if len(shapes) > 1:
        raise NotInLockstepError("their numbers of rows differ")
    if any(_may_be_large(one, stage) for one in works for stage in stages):
        raise NotInLockstepError("a large batch goes through the encoder in chunks")
    if not encoder.goes_in_lockstep():
        raise NotInLockstepError(f"vmap does not go through {job.model_name}")


def _may_be_large(work: Work, stage: Stage) -> bool:
    """Returns whether a batch of a stage, of its longest texts, goes in chunks."""
    if stage.frozen_pooling is not None:
        return False
    rows = work.rows_of(stage).index
    tokens, read = work.read(stage, rows)
    texts = min(stage.training.batch_size, len(rows))
    return stage.views * texts * int(tokens.lengths_of(read).max()) > LIMIT


def _tensors(model: Model) -> Mapping[str, Tensor]:
    """Returns what may differ between replicates: the weights, and the parts' other state."""
    return dict(chain(model.named_parameters(), model.parts.named_buffers(prefix="parts")))


def _stacked(models: Sequence[Model], *, parts_alone: bool) -> dict[str, Tensor]:
    """Returns the weights of some models as `[S, ...]`, of which each model's become a part.

    Args:
        models: The models; alike but for their values.
        parts_alone: Whether the encoder is not called.
    """
    stacks = {}
    each = [_tensors(model) for model in models]
    for name, first in each[0].items():
        if parts_alone and name.startswith("encoder."):
            continue
        stack = torch.stack([tensors[name].detach() for tensors in each])
        for tensors, part in zip(each, stack.unbind(), strict=True):
            tensors[name].data = part
        stacks[name] = stack.requires_grad_(first.requires_grad)
    return stacks
