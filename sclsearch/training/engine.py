"""Training loop: train each stage, validate, restore the best weights, evaluate once on test."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.lora import add_adapter, stored, train_weights
from sclsearch.encoders.savings import SubsetEmbedding
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import (
    Batch,
    Labels,
    Model,
    Positions,
    Stage,
    Terms,
    new_modules,
)
from sclsearch.methods.solve import solve_head
from sclsearch.protocols.base import Rows
from sclsearch.randomness import seed_for
from sclsearch.tasks.metrics import validation_loss, value
from sclsearch.training.checkpoint import Checkpoint, Kept, TrainingState
from sclsearch.training.data import (
    Tokens,
    batches_in_order,
    collate,
    inputs,
    occurring,
    rows_of,
)
from sclsearch.training.device import Backend, backend_for
from sclsearch.training.evaluation import (
    Features,
    NonFiniteLossError,
    TrainingResult,
    compute_features,
    evaluate_rows,
)
from sclsearch.training.graphs import GraphedUpdates, Update
from sclsearch.training.optimizer import (
    adamw,
    evaluation_points,
    evenly,
    lr_scale,
    purpose,
    set_learning_rates,
    updates_of,
    updates_per_epoch,
)
from sclsearch.training.spec import SeedRunSpec

LOSS_RECORDS = 20
"""Most loss records of a stage that is not evaluated."""


class Report(Protocol):
    """Receiver of the progress of a seed run, called after each update and each evaluation."""

    def __call__(self, share: float, evaluation: Mapping[str, Any] | None = None, /) -> object:
        """Receive the share of updates that are done, and an entry of `result.evaluations`."""


def train(
    spec: SeedRunSpec,
    tokens: Mapping[str, Tokens],
    *,
    test: bool = True,
    graphs: bool = True,
    report: Report = lambda *_: None,
    checkpoint: Checkpoint | None = None,
) -> TrainingResult:
    """Train and evaluate one seed run; without validation rows, keep its last weights.

    `tokens` has each split of the task, tokenized at the seed run's `max_length`.
    With `graphs`, updates on a GPU are replayed as CUDA graphs; the results are the same. A resumed
    `checkpoint` gives the results of an undisturbed training, if the machine is the same.

    Raises:
        NonFiniteLossError: A loss term or a score is NaN or infinite.
        SclsearchError: The encoder lacks a capability that the method needs.
    """
    checkpoint, backend = checkpoint or Checkpoint(), backend_for(spec.numerics)
    with backend.stream():
        encoder = load_encoder(spec.model, spec.model_name, backend.device)
        if rank := spec.training.lora_rank:
            torch.manual_seed(seed_for(spec.replicate.initialization, "adapter"))
            add_adapter(encoder, rank)
        notes = (*encoder.notes, *spec.method.check(encoder), *_truncation_notes(spec, tokens))
        result, first = TrainingResult(notes), 0
        if checkpoint.state is not None:
            result, first = TrainingResult(**checkpoint.state.result), checkpoint.state.position
            result.probabilities = {n: np.asarray(p) for n, p in result.probabilities.items()}
        test = test and len(spec.splits.test.index) > 0
        given = (encoder, result, backend, report, checkpoint, test, graphs)
        run = _SeedRun(spec, spec.stages, tokens, *given)
        classes = len(spec.task.labels)
        modules = nn.ModuleDict()
        if first:
            modules = new_modules(run.stages[:first], encoder, classes)
        for position, stage in enumerate(run.stages[first:], start=first):
            model, weights = _new_model(run, position, modules)
            if stage.solved:
                _solve_stage(run, position, model)
            else:
                _StageRun(run, position, model, weights).train()
            modules = model.new_modules
    result.seconds = checkpoint.seconds
    return result


@dataclass(frozen=True, slots=True)
class _SeedRun:
    """Everything that the stages of a seed run share."""

    spec: SeedRunSpec
    stages: tuple[Stage, ...]
    tokens: Mapping[str, Tokens]
    encoder: Encoder
    result: TrainingResult
    backend: Backend
    report: Report
    checkpoint: Checkpoint
    test: bool
    graphs: bool

    def rows(self, position: int) -> tuple[Rows, Labels]:
        """Return the training rows of a stage and their labels."""
        rows = rows_of(self.spec, self.tokens, self.stages[position])
        return rows, self.tokens[rows.split].y[rows.index]

    def updates(self, position: int) -> int:
        """Return the updates of a stage that does not end early."""
        if self.stages[position].solved:
            return 0
        most = self.spec.most_updates(len(self.stages) - 1 - position)
        return updates_of(len(self.rows(position)[0].index), self.stages[position], most)

    def features(self, position: int, model: Model) -> Features | None:
        """Return the embeddings of all rows that a stage reads, if its encoder is frozen.

        A later test computes them all again: in other batches the last digits would differ.
        """
        stage, splits = self.stages[position], self.spec.splits
        if stage.frozen_pooling is None:
            return None
        evaluated = (splits.validation, splits.test) if stage is self.stages[-1] else ()
        read = (self.rows(position)[0], *evaluated)
        return compute_features(model, self.tokens, read, stage.frozen_pooling, self.backend)

    def run_test(self, model: Model, features: Features | None) -> None:
        """Store the metrics, predictions and probabilities of a model on the test rows."""
        result, rows = self.result, self.spec.splits.test
        if self.test:
            result.test, result.predictions["test"], result.probabilities["test"] = evaluate_rows(
                self.spec, self.tokens, rows, model, features, self.backend
            )

    def keep_weights(self, model: Model) -> None:
        self.result.weights = {n: t.cpu() for n, t in stored(model.state_dict()).items()}


def _new_model(run: _SeedRun, position: int, before: nn.ModuleDict) -> tuple[Model, Tensor | None]:
    """Return the model of a stage, and its class weights if they are set.

    It has the encoder, the modules that it takes from the stage `before`, and new modules, which
    have their own seed.
    """
    spec, stage, remaining = run.spec, run.stages[position], len(run.stages) - 1 - position
    classes, device = len(spec.task.labels), run.backend.device
    balanced = stage.training.class_weights == "balanced" and stage.labeled and classes > 0
    weights = _class_weights(run.rows(position)[1], classes).to(device) if balanced else None
    torch.manual_seed(seed_for(spec.replicate.initialization, purpose("parts", remaining)))
    modules = stage.with_taken(stage.new_modules(run.encoder, classes), before)
    training, adapter = stage.frozen_pooling is None, stage.training.lora_rank > 0
    train_weights(run.encoder, training=training, adapter=adapter)
    return Model(run.encoder, modules, weights).to(device), weights


def _solve_stage(run: _SeedRun, position: int, model: Model) -> None:
    """Fit the head of the last stage to the features of the training rows, and evaluate it."""
    spec, result, stage = run.spec, run.result, run.stages[position]
    features, (rows, y) = run.features(position, model), run.rows(position)
    assert features is not None
    values = features.values.cpu().numpy()[features.position[rows.split][rows.index]]
    head = model.new_modules["head"]
    if not isinstance(head, Head) or head.dense is not None:
        raise SclsearchError(f"{stage.name}: head: must be a Head of one linear layer, got {head}.")
    balanced = stage.training.class_weights == "balanced"
    solve_head(head, values.astype(np.float64), y, balanced=balanced)
    result.seconds = run.checkpoint.seconds
    if len(spec.splits.validation.index):
        evaluation, result.predictions["validation"], result.probabilities["validation"] = (
            evaluate_rows(spec, run.tokens, spec.splits.validation, model, features, run.backend)
        )
        before = result.stages[-1] if result.stages else {"epoch": 0.0, "update": 0}
        done = {"epoch": before["epoch"], "update": before["update"], "loss": {}}
        result.evaluations.append({**done, "validation": evaluation})
        result.kept = len(result.evaluations) - 1
        run.report(1.0, result.evaluations[-1])
    run.run_test(model, features)
    run.keep_weights(model)


class _StageRun:
    """Training of one stage: model, optimizer, schedule, and the best weights so far."""

    def __init__(
        self, run: _SeedRun, position: int, model: Model, class_weights: Tensor | None
    ) -> None:
        spec, stage, device = run.spec, run.stages[position], run.backend.device
        training, (self.rows, y) = stage.training, run.rows(position)
        self.run, self.position, self.stage, self.model = run, position, stage, model
        self.class_weights, self.remaining = class_weights, len(run.stages) - 1 - position
        self.last = self.remaining == 0
        run.encoder.chunk_tokens = training.chunk_tokens
        self.vocabulary: SubsetEmbedding | None = None
        whole = stage.full_vocabulary or training.lora_rank
        if stage.frozen_pooling is None and not whole:
            kept_tokens = torch.from_numpy(occurring(spec, run.tokens)).to(device)
            self.vocabulary = SubsetEmbedding.install(run.encoder.model, kept_tokens)
        resumed, run.checkpoint.state = run.checkpoint.state, None
        if resumed is not None:
            model.load_state_dict(resumed.model)
        self.features = run.features(position, model)
        self.per_epoch = updates_per_epoch(len(self.rows.index), training)
        updates = [run.updates(number) for number in range(len(run.stages))]
        self.total, self.before = updates[position], sum(updates[:position])
        self.whole = sum(updates)  # of all stages
        self.evaluated = self.last and len(spec.splits.validation.index) > 0
        self.points = (
            evaluation_points(spec.evaluate, self.per_epoch, self.total)
            if self.evaluated
            else evenly(self.total, LOSS_RECORDS)
        )
        torch.manual_seed(seed_for(spec.replicate.noise, purpose("noise", self.remaining)))
        self.optimizer = adamw(model, stage)
        self.done, self.kept = 0, Kept()
        if resumed is not None:
            self._resume(resumed)
        most = spec.most_updates(self.remaining)
        self.order = batches_in_order(y, stage, self.remaining, spec.replicate.order, most)
        self.history: list[Tensor] = []
        self.update_weights: Update = partial(
            make_update, model, stage, self.optimizer, run.backend
        )
        # A stage that predicts tokens selects them, so its shapes depend on the batch.
        if run.graphs and spec.graphs and not stage.full_vocabulary:
            given = (training.chunk_tokens, self.optimizer.zero_grad)
            self.update_weights = GraphedUpdates(self.update_weights, *given)

    def _resume(self, state: TrainingState) -> None:
        self.done, self.kept = state.update, Kept(*state.best)
        device = self.run.backend.device
        weights = {name: tensor.to(device) for name, tensor in self.kept.weights.items()}
        self.kept = self.kept._replace(weights=weights)
        # Its own groups: on a GPU, their learning rates are tensors there.
        own = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**own, "state": state.optimizer})
        torch.set_rng_state(state.random[0])
        torch.cuda.set_rng_state_all(state.random[1])

    def train(self) -> None:
        """Update, evaluate and write checkpoints until the last update, then test."""
        batches = islice(self.order, self.done, None)
        for update, positions in enumerate(batches, start=self.done + 1):
            terms = self._update(update, positions)
            self.run.report((self.before + update) / self.whole)
            if update not in self.points:
                continue
            # The host waits for the device here, for the first time since the last evaluation.
            self._record(update, tuple(terms))
            patience, evaluations = self.stage.training.patience, self.run.result.evaluations
            if self.evaluated and patience and len(evaluations) > self.run.result.kept + patience:
                break
            if self.run.checkpoint.due and not (self.last and update == self.total):
                self._write_checkpoint(update)
        self._finish()

    def _update(self, update: int, positions: Positions) -> Terms:
        """Update the weights on the batch at some positions of the rows; return the terms."""
        run, stage, training = self.run, self.stage, self.stage.training
        index = self.rows.index[positions]
        scale = lr_scale(update, self.total, training.warmup_ratio)
        set_learning_rates(self.optimizer, scale)
        if self.features is not None:
            batch = self.features.batch(run.tokens[self.rows.split], self.rows.split, index)
        else:
            rates = stage.dropout_rates_at(update - 1)
            batch = collate(*inputs(run.spec, run.tokens, stage, index), rates, run.backend.device)
        self.model.train()
        terms = self.update_weights(batch)
        if self.last and self.class_weights is not None and not self.model.class_weights_read:
            method = run.spec.method_name
            raise SclsearchError(
                f"class_weights: 'balanced' has no effect, because the loss of {method} "
                "does not read model.class_weights. Pass it to the loss as weight, or leave it out."
            )
        self.history.append(torch.stack(list(terms.values())))
        if self.vocabulary is not None:
            self.vocabulary.decay *= 1 - training.learning_rate * scale * training.weight_decay
        return terms

    def _record(self, update: int, terms: Sequence[str]) -> None:
        """Record the mean of the loss terms since the last record, and validate the last stage."""
        run, result, name = self.run, self.run.result, self.stage.name
        where, per_epoch = f"{name}: loss term ", self.per_epoch
        losses = _mean_terms(self.history, terms, where, update, per_epoch)
        self.history.clear()
        result.seconds = run.checkpoint.seconds
        record: dict[str, object] = {"epoch": update / per_epoch, "update": update, "loss": losses}
        if not self.evaluated:
            result.stages.append({"stage": name, **record})
            return
        evaluation, predictions, probabilities = evaluate_rows(
            run.spec, run.tokens, run.spec.splits.validation, self.model, self.features, run.backend
        )
        result.evaluations.append({**record, "validation": evaluation})
        run.report((self.before + update) / self.whole, result.evaluations[-1])
        # Few validation rows often give equal scores; the loss tells such checkpoints apart.
        rank = value(run.spec.metric, evaluation), -validation_loss(evaluation)
        if run.spec.keep == "last" or rank >= self.kept.rank:
            result.kept = len(result.evaluations) - 1
            result.predictions["validation"] = predictions
            result.probabilities["validation"] = probabilities
            # No copy is needed if no update follows.
            final = update == self.total or run.spec.keep == "last"
            trained = {} if final else _trained(self.model).items()
            weights = {n: t.detach().clone() for n, t in trained}
            self.kept = Kept(weights, rank, self.vocabulary.decay if self.vocabulary else 1.0)

    def _write_checkpoint(self, update: int) -> None:
        result = self.run.result
        arrays = {n: torch.from_numpy(p) for n, p in result.probabilities.items()}
        so_far = {**asdict(result), "probabilities": arrays}
        random = torch.get_rng_state(), torch.cuda.get_rng_state_all()
        model, optimizer = self.model.state_dict(), self.optimizer.state_dict()["state"]
        kept = (self.kept.weights, self.kept.rank, self.kept.decay)
        now = (self.position, update, model, optimizer, random, kept, so_far)
        self.run.checkpoint.write(TrainingState(*now))

    def _finish(self) -> None:
        """Restore the kept weights and the whole vocabulary; test after the last stage."""
        if self.last:
            self.model.load_state_dict(self.kept.weights, strict=False)
            if self.vocabulary is not None:
                self.vocabulary.decay = self.kept.decay
            self.run.run_test(self.model, self.features)
        if self.vocabulary is not None:
            self.vocabulary.restore(self.run.encoder.model)
        if self.last:
            self.run.keep_weights(self.model)


def make_update(
    model: Model, stage: Stage, optimizer: torch.optim.AdamW, backend: Backend, batch: Batch
) -> Terms:
    """Update the weights once; return the loss terms, float32 scalars without gradients."""
    with backend.autocast():
        terms = stage.terms(model, batch)
        loss = stage.loss(terms)
    loss.backward()  # type: ignore[no-untyped-call]
    if stage.training.max_grad_norm > 0:
        with_gradient = [p for p in model.parameters() if p.grad is not None]
        clip_grad_norm_(with_gradient, stage.training.max_grad_norm, foreach=True)
    optimizer.step()
    optimizer.zero_grad()  # gradients would take memory during the next forward pass
    return {name: term.detach().float() for name, term in terms.items()}


def _class_weights(y: Labels, classes: int) -> Tensor:
    """Return the weight n / (C n_c) of each class in a stage's rows, `[C]`."""
    counts = np.bincount(y.astype(np.int64), minlength=classes).clip(1)
    return torch.from_numpy(len(y) / (classes * counts)).float()


def _truncation_notes(spec: SeedRunSpec, tokens: Mapping[str, Tokens]) -> tuple[str, ...]:
    """Return a note on how many test texts reach `max_length`; nothing if none does."""
    rows, longest = spec.splits.test, spec.training.max_length
    full = tokens[rows.split].lengths_of(rows.index) >= longest
    if not full.any():
        return ()
    count = f"{full.sum()} of {len(full)} test texts"
    return (f"max_length={longest}: {count} reach it; longer texts are truncated",)


def _mean_terms(
    history: Sequence[Tensor], names: Sequence[str], where: str, update: int, per_epoch: int
) -> Mapping[str, float]:
    """Return the mean of each loss term over the updates up to `update`, counted from 1."""
    values = torch.stack(list(history)).cpu().numpy()  # [updates, terms]
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = wrong[0]
        before = update - len(history) + int(row)
        epoch, step = divmod(before, per_epoch)
        cause = "Lower the learning rate." if before else "Correct the loss: no weight has changed."
        raise NonFiniteLossError(
            f"{where}{names[column]} is {values[row, column]} at epoch {epoch + 1}, update "
            f"{step + 1} of {per_epoch}. {cause}"
        )
    # A sum in order: the last digits do not depend on how the sum is split.
    sums = reduce(np.add, values)
    return {name: float(total) / len(history) for name, total in zip(names, sums, strict=True)}


def _trained(model: Model) -> dict[str, Tensor]:
    """Return the tensors that updates change: trained weights and buffers of the new modules."""
    weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
    return {**weights, **dict(model.new_modules.named_buffers(prefix="new_modules"))}
