"""Trains one seed run: every stage of a method, evaluation, best weights, one test."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.methods.base import Batch, Model, Stage, Terms
from sclsearch.randomness import seed_for
from sclsearch.tasks.base import Index
from sclsearch.tasks.metrics import value
from sclsearch.training.batches import (
    batches_in_order,
    collate,
    updates_of,
    updates_per_epoch,
)
from sclsearch.training.evaluation import Features, Predictions, judge, predict
from sclsearch.training.features import features_of
from sclsearch.training.job import Work
from sclsearch.training.optimiser import adamw, clip, rate_factor
from sclsearch.training.precision import autocast, device_for
from sclsearch.training.schedule import evaluation_points, evenly
from sclsearch.training.shared import Shelf, shared_identity, take_or_train
from sclsearch.training.watch import TermWatch

if TYPE_CHECKING:
    from sclsearch.encoders.vocabulary import CutEmbedding

READINGS = 20
"""How often at most the losses of a stage that is not evaluated are noted."""


@dataclass(slots=True)
class Outcome:
    """What a finished seed run leaves.

    Attributes:
        notes: What a reader of the figures must know.
        stages: Losses of the stages before the last, which are not evaluated, in order.
        evaluations: Each evaluation on validation rows, in order.
        kept: Which of them counts.
        test: The one evaluation on test rows, with the weights of the kept one.
        predictions: Predicted class or score of each validation and test row, at the kept one.
        weights: Encoder and parts at the kept one, on the CPU.
        seconds: Wall-clock time; for a stage that was taken, that of its training.
    """

    notes: tuple[str, ...] = ()
    stages: list[dict[str, object]] = field(default_factory=list)
    evaluations: list[dict[str, object]] = field(default_factory=list)
    kept: int = -1
    test: dict[str, object] = field(default_factory=dict)
    predictions: dict[str, list[float]] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0


def train(work: Work, shelf: Shelf | None = None) -> Outcome:
    """Trains and evaluates one seed run.

    Args:
        work: The seed run.
        shelf: Where stages are kept that several configurations share; None trains them all.

    Raises:
        NonFiniteLossError: A term of the loss is not finite; names term, stage, epoch and update.
        SclsearchError: The encoder cannot do what the method needs.
    """
    started = time.perf_counter()
    job = work.job
    device = device_for(job.numerics)
    encoder = load_encoder(job.model, job.model_name).to(device)
    outcome = Outcome(notes=job.method.check(encoder))
    stages = job.method.stages(job.training)
    saved = 0.0
    for number, stage in enumerate(stages):
        last = stage is stages[-1]
        run = partial(
            _train_stage, work, stage, encoder, device, outcome, first=number == 0, last=last
        )
        identity = None if last else shared_identity(job, stages[: number + 1])
        saved += take_or_train(shelf, identity, encoder, outcome.stages, run)
    outcome.seconds = time.perf_counter() - started + saved
    return outcome


def _train_stage(
    work: Work,
    stage: Stage,
    encoder: Encoder,
    device: torch.device,
    outcome: Outcome,
    *,
    first: bool,
    last: bool,
) -> None:
    torch.manual_seed(seed_for(work.job.replicate.initialisation, f"parts/{stage.name}"))
    parts = stage.parts(encoder, work.tokens.classes)
    model = Model(encoder, parts).to(device)
    _StageRun(work, stage, model, device, outcome, first=first, last=last).run()


class _StageRun:
    """One stage of one seed run; the last stage of a method is evaluated."""

    def __init__(
        self,
        work: Work,
        stage: Stage,
        model: Model,
        device: torch.device,
        outcome: Outcome,
        *,
        first: bool,
        last: bool,
    ) -> None:
        self.work, self.job, self.stage = work, work.job, stage
        self.model, self.device, self.outcome = model, device, outcome
        self.first, self.last = first, last
        self.rows = self.work.rows_of(stage)
        self.per_epoch = updates_per_epoch(len(self.rows.index), stage.training)
        self.total = updates_of(len(self.rows.index), stage.training, self.job.most_updates)
        self.features: Features | None = None
        self.cut: CutEmbedding | None = None
        self.best: dict[str, Tensor] = {}
        self.best_decay = 1.0
        self.best_value = -np.inf

    def run(self) -> None:
        """Trains the stage; in the last one evaluates, and tests the kept weights once."""
        frozen = self.stage.frozen_pooling is not None
        self.model.encoder.requires_grad_(not frozen)
        if self.stage.cached:
            self._cache(str(self.stage.frozen_pooling))
        if not frozen and not self.stage.whole_vocabulary:
            tokens = torch.from_numpy(self.work.occurring).to(self.device)
            self.cut = self.model.encoder.cut(tokens)
        torch.manual_seed(seed_for(self.job.replicate.noise, f"noise/{self.stage.name}"))
        optimiser = adamw(self.model, self.stage)
        watch = TermWatch(self.stage.name, self.per_epoch)
        points = (
            evaluation_points(self.job.evaluate, self.per_epoch, self.total)
            if self.last
            else evenly(self.total, READINGS)
        )
        for update, batch in enumerate(self._batches()):
            watch.see(update, self._update(update, batch, optimiser))
            if update + 1 in points:
                losses = watch.read()
                if self.last:
                    self._evaluate(update + 1, losses)
                else:
                    self._note(update + 1, losses)
        # A frozen encoder would go on with its last gradients, and clipping counts them.
        self.model.zero_grad()
        if self.last:
            self._finish()
        elif self.cut is not None:
            self.cut.restore(self.model.encoder.model)

    def _update(self, update: int, batch: Batch, optimiser: torch.optim.Optimizer) -> Terms:
        """Does one update; returns the terms of its loss."""
        training = self.stage.training
        warmup = round(self.total * training.warmup_ratio)
        factor = rate_factor(update, warmup, self.total)
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * factor
        self.model.train()
        with autocast(self.device):
            terms = self.stage.terms(self.model, batch)
            loss = self.stage.loss(terms)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        clip(self.model, training.max_grad_norm)
        optimiser.step()
        if self.cut is not None:
            self.cut.decay *= 1 - training.learning_rate * factor * training.weight_decay
        return terms

    def _batches(self) -> Iterator[Batch]:
        labelled = self.work.tokens.splits[self.rows.split]
        y = labelled.y[self.rows.index]
        seed, most = self.job.replicate.order, self.job.most_updates
        for update, positions in enumerate(batches_in_order(y, self.stage, seed, most)):
            index = self.rows.index[positions]
            if self.features is not None:
                yield self.features.batch(labelled, self.rows.split, index)
            else:
                yield self._collate(index, self.stage.rates_at(update))

    def _collate(self, index: Index, rates: tuple[float, ...]) -> Batch:
        task, split = self.work.tokens, self.rows.split
        if self.stage.reads == "texts":
            return collate(task.splits[split], index, task.pad, rates, self.device)
        tokens, both = task.paraphrases_of(index)
        return collate(tokens, both, task.pad, rates, self.device)

    def _note(self, update: int, losses: Mapping[str, float]) -> None:
        self.outcome.stages.append(
            {
                "stage": self.stage.name,
                "epoch": update / self.per_epoch,
                "update": update,
                "loss": dict(losses),
            }
        )

    def _cache(self, pooling: str) -> None:
        parts = self.job.parts
        rows = (self.rows, parts.validation, parts.test) if self.last else (self.rows,)
        self.features = features_of(
            self.work, self.model, rows, pooling, self.device, pretrained=self.first
        )

    def _evaluate(self, update: int, losses: Mapping[str, float]) -> None:
        predictions = self._predict("validation")
        evaluation = judge(self.job, self.work.tokens, self.job.parts.validation, predictions)
        score = value(self.job.metric, evaluation)
        self.outcome.evaluations.append(
            {
                "epoch": update / self.per_epoch,
                "update": update,
                "loss": dict(losses),
                "validation": evaluation,
            }
        )
        if self.job.keep == "last" or score > self.best_value:
            self.best_value = score
            self.outcome.kept = len(self.outcome.evaluations) - 1
            self.outcome.predictions["validation"] = predictions.tolist()
            self.best_decay = 1.0 if self.cut is None else self.cut.decay
            final = update == self.total or self.job.keep == "last"
            self.best = {} if final else {k: v.detach().clone() for k, v in self._trained().items()}

    def _finish(self) -> None:
        self.model.load_state_dict(self.best, strict=False)
        predictions = self._predict("test")
        self.outcome.predictions["test"] = predictions.tolist()
        self.outcome.test = judge(self.job, self.work.tokens, self.job.parts.test, predictions)
        if self.cut is not None:
            self.cut.decay = self.best_decay
            self.cut.restore(self.model.encoder.model)
        self.outcome.weights = {
            name: tensor.detach().cpu() for name, tensor in self.model.state_dict().items()
        }

    def _trained(self) -> dict[str, Tensor]:
        return {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad
        }

    def _predict(self, which: str) -> Predictions:
        rows = getattr(self.job.parts, which)
        return predict(
            self.model, self.job.method, self.work.tokens, rows, self.features, self.device
        )
