"""Training loop: train each stage, validate, restore the best weights, evaluate once on test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial, reduce
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.encoders.load import load_encoder
from sclsearch.encoders.lora import add_adapter, stored, train_weights
from sclsearch.encoders.savings import SubsetEmbedding
from sclsearch.errors import SclsearchError
from sclsearch.methods.base import Batch, Model, Stage, Terms
from sclsearch.methods.solve import solve_head
from sclsearch.protocols.base import Rows
from sclsearch.randomness import seed_for
from sclsearch.tasks.metrics import validation_loss, value
from sclsearch.training.checkpoint import Checkpoint, TrainingState
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
Report = Callable[[Mapping[str, Any]], object]
"""Receiver of each evaluation, an entry of `TrainingResult.evaluations`, during the training."""


def train(
    spec: SeedRunSpec,
    tokens: Mapping[str, Tokens],
    *,
    test: bool = True,
    graphs: bool = True,
    report: Report = lambda _: None,
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
    checkpoint = checkpoint or Checkpoint()
    test = test and len(spec.splits.test.index) > 0
    backend = backend_for(spec.numerics)
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
        for position in range(first, len(spec.stages)):
            given = (spec, tokens, position, encoder, result, backend, report, checkpoint)
            if spec.stages[position].solved:
                _solve_stage(*given, test=test)
            else:
                _train_stage(*given, test=test, graphs=graphs)
    result.seconds = checkpoint.seconds
    return result


def _train_stage(  # noqa: C901 (one loop that is read from top to bottom)
    spec: SeedRunSpec,
    tokens: Mapping[str, Tokens],
    position: int,
    encoder: Encoder,
    result: TrainingResult,
    backend: Backend,
    report: Report,
    checkpoint: Checkpoint,
    *,
    test: bool,
    graphs: bool,
) -> None:
    replicate, stage = spec.replicate, spec.stages[position]
    training, rows = stage.training, rows_of(spec, tokens, stage)
    classes = len(spec.task.labels)
    remaining, device = len(spec.stages) - 1 - position, backend.device
    last = remaining == 0

    balanced = training.class_weights == "balanced" and stage.labeled and classes > 0
    weights = _class_weights(tokens, rows, classes).to(device) if balanced else None
    model = _new_model(spec, position, encoder, weights, device)
    frozen = stage.frozen_pooling is not None
    encoder.chunk_tokens = training.chunk_tokens
    features, vocabulary = None, None
    if not frozen and not stage.full_vocabulary and not training.lora_rank:
        kept_tokens = torch.from_numpy(occurring(spec, tokens)).to(device)
        vocabulary = SubsetEmbedding.install(encoder.model, kept_tokens)
    resumed, checkpoint.state = checkpoint.state, None
    if resumed is not None:
        model.load_state_dict(resumed.model)
    if frozen:
        features = _features(spec, tokens, position, model, backend)

    # Schedule.
    per_epoch = updates_per_epoch(len(rows.index), training)
    most = spec.most_updates(remaining)
    total = updates_of(len(rows.index), training, most)
    evaluated = last and len(spec.splits.validation.index) > 0
    points = (
        evaluation_points(spec.evaluate, per_epoch, total)
        if evaluated
        else evenly(total, LOSS_RECORDS)
    )
    torch.manual_seed(seed_for(replicate.noise, purpose("noise", remaining)))
    optimizer = adamw(model, stage)
    history: list[Tensor] = []
    best: dict[str, Tensor] = {}
    best_rank, best_decay = (-np.inf, -np.inf), 1.0
    done = 0
    if resumed is not None:
        done, (best, best_rank, best_decay) = resumed.update, resumed.best
        best = {name: tensor.to(device) for name, tensor in best.items()}
        # Its own groups: on a GPU, their learning rates are tensors there.
        optimizer.load_state_dict({**optimizer.state_dict(), "state": resumed.optimizer})
        torch.set_rng_state(resumed.random[0])
        torch.cuda.set_rng_state_all(resumed.random[1])
        resumed = None  # frees its memory

    update_weights: Update = partial(make_update, model, stage, optimizer, backend)
    # A stage that predicts tokens selects them, so its shapes depend on the batch.
    if graphs and spec.graphs and not stage.full_vocabulary:
        chunk = training.chunk_tokens
        update_weights = GraphedUpdates(update_weights, chunk, optimizer.zero_grad)

    y = tokens[rows.split].y[rows.index]
    order = batches_in_order(y, stage, remaining, replicate.order, most)
    for update, positions in enumerate(islice(order, done, None), start=done + 1):
        index = rows.index[positions]
        scale = lr_scale(update, total, training.warmup_ratio)
        set_learning_rates(optimizer, scale)
        if features is not None:
            batch = features.batch(tokens[rows.split], rows.split, index)
        else:
            rates = stage.dropout_rates_at(update - 1)
            batch = collate(*inputs(spec, tokens, stage, index), rates, device)
        model.train()
        terms = update_weights(batch)
        if last and weights is not None and not model.class_weights_read:
            raise SclsearchError(
                f"class_weights: 'balanced' has no effect, because the loss of {spec.method_name} "
                "does not read model.class_weights. Pass it to the loss as weight, or leave it out."
            )
        history.append(torch.stack(list(terms.values())))
        if vocabulary is not None:
            vocabulary.decay *= 1 - training.learning_rate * scale * training.weight_decay
        if update not in points:
            continue

        # The host waits for the device here, for the first time since the last evaluation.
        losses = _mean_terms(history, tuple(terms), f"{stage.name}: loss term ", update, per_epoch)
        history.clear()
        result.seconds = checkpoint.seconds
        record: dict[str, object] = {"epoch": update / per_epoch, "update": update, "loss": losses}
        if evaluated:
            evaluation, predictions, probabilities = evaluate_rows(
                spec, tokens, spec.splits.validation, model, features, backend
            )
            result.evaluations.append({**record, "validation": evaluation})
            report(result.evaluations[-1])
            # Few validation rows often give equal scores; the loss tells such checkpoints apart.
            rank = value(spec.metric, evaluation), -validation_loss(evaluation)
            if spec.keep == "last" or rank >= best_rank:
                best_rank, best_decay = rank, vocabulary.decay if vocabulary else 1.0
                result.kept = len(result.evaluations) - 1
                result.predictions["validation"] = predictions
                result.probabilities["validation"] = probabilities
                # No copy is needed if no update follows.
                final = update == total or spec.keep == "last"
                best = {} if final else {n: t.detach().clone() for n, t in _trained(model).items()}
            if training.patience and len(result.evaluations) > result.kept + training.patience:
                break
        else:
            result.stages.append({"stage": stage.name, **record})
        if checkpoint.due and not (last and update == total):
            arrays = result.probabilities.items()
            so_far = {
                **asdict(result),
                "probabilities": {n: torch.from_numpy(p) for n, p in arrays},
            }
            random = torch.get_rng_state(), torch.cuda.get_rng_state_all()
            now = position, update, model.state_dict(), optimizer.state_dict()["state"], random
            checkpoint.write(TrainingState(*now, (best, best_rank, best_decay), so_far))

    if last:
        model.load_state_dict(best, strict=False)
        if vocabulary is not None:
            vocabulary.decay = best_decay
        if test:
            result.test, result.predictions["test"], result.probabilities["test"] = evaluate_rows(
                spec, tokens, spec.splits.test, model, features, backend
            )
    if vocabulary is not None:
        vocabulary.restore(encoder.model)
    if last:
        result.weights = {n: tensor.cpu() for n, tensor in stored(model.state_dict()).items()}


def _new_model(
    spec: SeedRunSpec,
    position: int,
    encoder: Encoder,
    class_weights: Tensor | None,
    device: torch.device,
) -> Model:
    """Return the encoder of the previous stage with new modules, which have their own seed."""
    stage, remaining = spec.stages[position], len(spec.stages) - 1 - position
    torch.manual_seed(seed_for(spec.replicate.initialization, purpose("parts", remaining)))
    new_modules = stage.new_modules(encoder, len(spec.task.labels))
    training, adapter = stage.frozen_pooling is None, stage.training.lora_rank > 0
    train_weights(encoder, training=training, adapter=adapter)
    return Model(encoder, new_modules, class_weights).to(device)


def _solve_stage(
    spec: SeedRunSpec,
    tokens: Mapping[str, Tokens],
    position: int,
    encoder: Encoder,
    result: TrainingResult,
    backend: Backend,
    report: Report,
    checkpoint: Checkpoint,
    *,
    test: bool,
) -> None:
    """Fit the head of the last stage to the features of the training rows, and evaluate it."""
    stage = spec.stages[position]
    model = _new_model(spec, position, encoder, None, backend.device)
    features, rows = _features(spec, tokens, position, model, backend), rows_of(spec, tokens, stage)
    y = tokens[rows.split].y[rows.index]
    values = features.values.cpu().numpy()[features.position[rows.split][rows.index]]
    balanced = stage.training.class_weights == "balanced"
    head = model.new_modules["head"]
    if not isinstance(head, Head) or head.dense is not None:
        raise SclsearchError(f"{stage.name}: head: must be a Head of one linear layer, got {head}.")
    solve_head(head, values.astype(np.float64), y, balanced=balanced)
    before = result.stages[-1] if result.stages else {"epoch": 0.0, "update": 0}
    result.seconds = checkpoint.seconds
    if len(spec.splits.validation.index):
        evaluation, result.predictions["validation"], result.probabilities["validation"] = (
            evaluate_rows(spec, tokens, spec.splits.validation, model, features, backend)
        )
        done = {"epoch": before["epoch"], "update": before["update"], "loss": {}}
        result.evaluations.append({**done, "validation": evaluation})
        result.kept = len(result.evaluations) - 1
        report(result.evaluations[-1])
    if test:
        result.test, result.predictions["test"], result.probabilities["test"] = evaluate_rows(
            spec, tokens, spec.splits.test, model, features, backend
        )
    result.weights = {n: tensor.cpu() for n, tensor in stored(model.state_dict()).items()}


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


def _features(
    spec: SeedRunSpec, tokens: Mapping[str, Tokens], position: int, model: Model, backend: Backend
) -> Features:
    """Return the embeddings of all rows that a stage with a frozen encoder reads.

    A later test computes them all again: in other batches the last digits would differ.
    """
    stage = spec.stages[position]
    last = position == len(spec.stages) - 1
    evaluated = (spec.splits.validation, spec.splits.test) if last else ()
    read = (rows_of(spec, tokens, stage), *evaluated)
    return compute_features(model, tokens, read, str(stage.frozen_pooling), backend)


def _class_weights(tokens: Mapping[str, Tokens], rows: Rows, classes: int) -> Tensor:
    """Return the weight n / (C n_c) of each class in a stage's rows, `[C]`."""
    y = tokens[rows.split].y[rows.index]
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
