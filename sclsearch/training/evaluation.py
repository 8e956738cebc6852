"""Evaluation of a model on labeled rows, cached embeddings, and the result of a training."""

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sclsearch.canonical import canonical
from sclsearch.methods.base import Batch, Method, Model
from sclsearch.protocols.base import Rows, by_split
from sclsearch.tasks.base import Index
from sclsearch.tasks.metrics import evaluate
from sclsearch.training.data import (
    Tokens,
    by_length,
    by_tokens,
    collate,
    labels_of,
    on_device,
    padded_widths,
)
from sclsearch.training.device import Backend
from sclsearch.training.spec import SeedRunSpec

EVALUATION_BATCH = 64
GPU_TOKENS = 2**15
"""Most tokens of an evaluation batch on a GPU, with its padding; small batches do not fill a GPU.

A change of it needs a new `GPU_ENGINE_VERSION`.
"""
ONE_VIEW = (0.0,)

Probabilities = npt.NDArray[np.float32]


class NonFiniteLossError(ArithmeticError):
    """Error for a NaN or infinite loss term or score; the message names the term and update."""


@dataclass(frozen=True, slots=True)
class Features:
    """Embeddings of rows, computed by a frozen encoder in evaluation mode."""

    position: Mapping[str, Index]  # of each row in `values`, by split and row number; -1 for none
    values: Tensor  # [rows, d]

    def batch(self, tokens: Tokens, split: str, index: Index) -> Batch:
        """Return rows as a batch that holds features instead of tokens."""
        device = self.values.device
        nothing = torch.empty(0, device=device)
        return Batch(
            ids=nothing,
            mask=nothing,
            types=nothing,
            content=nothing,
            y=labels_of(tokens, index, device),
            dropout_rates=ONE_VIEW,
            features=self.values[on_device(self.position[split][index], device)],
        )


@torch.no_grad()
def compute_features(
    model: Model,
    tokens: Mapping[str, Tokens],
    rows: tuple[Rows, ...],
    pooling: str,
    backend: Backend,
) -> Features:
    """Return the embeddings of all rows that a stage reads; compute each of them once."""
    model.eval()
    position: dict[str, npt.NDArray[np.int64]] = {}
    values, count = [], 0
    for split, index in by_split(rows).items():
        position[split] = np.full(len(tokens[split].y), -1, dtype=np.int64)
        for chosen in _batches(tokens[split], index, None, backend):
            batch = collate(tokens[split], index[chosen], ONE_VIEW, backend.device)
            with backend.autocast():
                values.append(model.embed(batch, pooling).float())
            position[split][index[chosen]] = np.arange(count, count + len(chosen))
            count += len(chosen)
    return Features(position, torch.cat(values))


def evaluate_rows(
    spec: SeedRunSpec,
    tokens: Mapping[str, Tokens],
    rows: Rows,
    model: Model,
    features: Features | None,
    backend: Backend,
) -> tuple[dict[str, Any], list[float], Probabilities]:
    """Return the metrics of a model as the run store keeps them, its predictions and probabilities.

    The probabilities of the classes are `[rows, C]`, where C is 0 in regression. Raise
    NonFiniteLossError if the last update broke the weights.
    """
    compute = partial(spec.method.scores, model)
    scores = outputs_of(model, compute, tokens, rows, features, backend)
    if not np.isfinite(scores).all():
        raise NonFiniteLossError(
            f"{rows.split}: scores are NaN or infinite. Lower the learning rate."
        )
    y = tokens[rows.split].y[rows.index]
    if spec.task.regression:
        predicted = scores.astype(np.float64)
        probabilities = np.empty((len(scores), 0), np.float32)
    else:
        predicted, probabilities = scores.argmax(1), class_probabilities(spec.method, scores)
    found = evaluate(spec.task, y, predicted, probabilities, spec.metric)
    return found, predicted.tolist(), probabilities


def class_probabilities(method: Method, scores: npt.NDArray[np.float32]) -> Probabilities:
    """Return the method's probability of each class, `[rows, C]`, from its scores `[rows, C]`."""
    return method.probabilities(torch.from_numpy(scores)).numpy()


@torch.inference_mode()
def outputs_of(
    model: Model,
    compute: Callable[[Batch], Tensor],
    tokens: Mapping[str, Tokens],
    rows: Rows,
    features: Features | None,
    backend: Backend,
    batch_size: int | None = None,
) -> npt.NDArray[np.float32]:
    """Return any output of a model in evaluation mode, in the order of the rows.

    `compute` returns the output for a batch, `[B, …]`. Batches have 64 rows on a CPU, and as many
    as fit on a GPU, unless `batch_size` is given.
    """
    model.eval()
    split = tokens[rows.split]
    outputs: list[Tensor] = []
    order = list(_batches(split, rows.index, batch_size, backend))
    for chosen in order:
        index = rows.index[chosen]
        batch = (
            collate(split, index, ONE_VIEW, backend.device)
            if features is None
            else features.batch(split, rows.split, index)
        )
        with backend.autocast():
            outputs.append(compute(batch).float())
    # One copy for all batches, because each copy waits for the device.
    found = torch.cat(outputs).cpu().numpy()
    in_row_order: npt.NDArray[np.float32] = found[np.argsort(np.concatenate(order))]
    return in_row_order


def _batches(tokens: Tokens, index: Index, size: int | None, backend: Backend) -> Iterator[Index]:
    if size is None and backend.device.type == "cuda":
        return by_tokens(padded_widths(tokens, index, backend.device), GPU_TOKENS)
    return by_length(tokens.lengths_of(index), size or EVALUATION_BATCH)


@dataclass(slots=True)
class TrainingResult:
    """Result of training one seed run.

    Test scores, predictions, probabilities and weights are those of the kept evaluation.
    """

    notes: tuple[str, ...] = ()  # remarks that reports print beside the scores
    stages: list[dict[str, object]] = field(default_factory=list)  # losses before the last stage
    evaluations: list[dict[str, object]] = field(default_factory=list)  # on the validation rows
    kept: int = -1  # index of the evaluation that gives the reported score
    test: dict[str, object] = field(default_factory=dict)
    predictions: dict[str, list[float]] = field(default_factory=dict)  # by kind of rows
    probabilities: dict[str, Probabilities] = field(default_factory=dict)  # [rows, C]
    weights: dict[str, Tensor] = field(default_factory=dict)  # on the CPU
    seconds: float = 0.0


def save_weights(path: Path, result: TrainingResult, spec: SeedRunSpec) -> None:
    """Write weights (`encoder.…`, `new_modules.…`) with the identity of their seed run."""
    metadata = {"key": spec.key, "identity": canonical(spec.identity), "model": spec.model_name}
    save_tensors(path, result.weights, metadata)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to a safetensors file, which holds tied weights under each of their names."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    usual = path.stat().st_mode
    try:
        save_file(_apart(tensors), path, dict(metadata))
        path.chmod(usual)  # safetensors lets only the owner read its files
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without shared memory, which safetensors refuses."""
    found: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        found[name] = tensor.clone() if tensor.data_ptr() in taken else tensor.contiguous()
        taken.add(tensor.data_ptr())
    return found
