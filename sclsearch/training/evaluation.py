"""Evaluation in batches sorted by length, through the method's own scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sclsearch.methods.base import Batch, Method, Model
from sclsearch.protocols.base import Rows, by_split
from sclsearch.tasks.base import Index
from sclsearch.tasks.metrics import evaluate
from sclsearch.training.batches import by_length, collate, labels_of, on_device
from sclsearch.training.precision import autocast
from sclsearch.training.spec import SeedRunSpec
from sclsearch.training.tokens import TokenizedTask, Tokens

EVALUATION_BATCH = 64
ONE_VIEW = (0.0,)

Predictions = npt.NDArray[np.int64] | npt.NDArray[np.float64]


class NonFiniteLossError(ArithmeticError):
    """A loss term or a score is NaN or infinite; the message says which one, and when."""


@dataclass(frozen=True, slots=True)
class Features:
    """Embeddings of some rows by a frozen encoder, in evaluation mode.

    Attributes:
        position: Position of a row among the features, by split and row number.
        values: Embeddings, `[rows, d]`.
    """

    position: Mapping[str, npt.NDArray[np.int64]]
    values: Tensor

    def batch(self, tokens: Tokens, split: str, index: npt.NDArray[np.int64]) -> Batch:
        """Returns the rows as a batch that carries features instead of tokens."""
        device = self.values.device
        nothing = torch.empty(0, device=device)
        return Batch(
            ids=nothing,
            mask=nothing,
            types=nothing,
            content=nothing,
            y=labels_of(tokens, index, device),
            rates=ONE_VIEW,
            features=self.values[on_device(self.position[split][index], device)],
        )


@torch.no_grad()
def compute_features(
    model: Model, task: TokenizedTask, rows: tuple[Rows, ...], pooling: str, device: torch.device
) -> Features:
    """Returns the embeddings of all rows that a stage will read, each computed once."""
    model.eval()
    position: dict[str, npt.NDArray[np.int64]] = {}
    values, count = [], 0
    for split, index in by_split(rows).items():
        tokens = task.splits[split]
        position[split] = np.full(len(tokens.y), -1, dtype=np.int64)
        for chosen in by_length(tokens.lengths_of(index), EVALUATION_BATCH):
            batch = collate(tokens, index[chosen], task.pad, ONE_VIEW, device)
            with autocast(device):
                values.append(model.embed(batch, pooling).float())
            position[split][index[chosen]] = np.arange(count, count + len(chosen))
            count += len(chosen)
    return Features(position, torch.cat(values))


def predict(
    model: Model,
    method: Method,
    task: TokenizedTask,
    rows: Rows,
    features: Features | None,
    device: torch.device,
) -> Predictions:
    """Returns the predicted class, int64, or score, float64, of each row, `[rows]`.

    Raises:
        NonFiniteLossError: The last update before it broke the weights; no loss has told yet.
    """
    return answers(scores_of(model, method, task, rows, features, device), rows, task)


@torch.inference_mode()
def scores_of(
    model: Model,
    method: Method,
    task: TokenizedTask,
    rows: Rows,
    features: Features | None,
    device: torch.device,
) -> npt.NDArray[np.float32]:
    """Returns the method's scores of each row, `[rows, C]`, or `[rows]` in regression."""
    model.eval()
    tokens = task.splits[rows.split]
    outputs: list[Tensor] = []
    order = list(by_length(tokens.lengths_of(rows.index), EVALUATION_BATCH))
    for chosen in order:
        index = rows.index[chosen]
        batch = (
            collate(tokens, index, task.pad, ONE_VIEW, device)
            if features is None
            else features.batch(tokens, rows.split, index)
        )
        with autocast(device):
            outputs.append(method.scores(model, batch).float())
    # Of all batches at once: it waits for the device.
    return in_order(torch.cat(outputs).cpu().numpy(), order)


def in_order(scores: npt.NDArray[np.float32], batches: Sequence[Index]) -> npt.NDArray[np.float32]:
    """Returns the scores of rows that were read in batches, in the order of the rows."""
    return scores[np.argsort(np.concatenate(batches))]


def answers(scores: npt.NDArray[np.float32], rows: Rows, task: TokenizedTask) -> Predictions:
    """Returns what scores say of each row, `[rows]`.

    Args:
        scores: `[rows, C]`, or `[rows]` in regression.
        rows: The rows.
        task: The task.

    Raises:
        NonFiniteLossError: Some are not finite.
    """
    if not np.isfinite(scores).all():
        raise NonFiniteLossError(f"{rows.split}: scores must be finite, but some are not")
    found = scores if scores.ndim == 1 else scores.argmax(1)
    return found.astype(np.int64) if task.classes else found.astype(np.float64)


def judge(
    spec: SeedRunSpec, task: TokenizedTask, rows: Rows, predictions: Predictions
) -> dict[str, object]:
    """Returns the evaluation of some predictions as it is stored."""
    return evaluate(spec.task, task.splits[rows.split].y[rows.index], predictions)
