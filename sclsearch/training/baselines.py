"""Baselines of a task: the largest class, and a linear model on the frozen encoder.

The linear model reads the pretrained encoder's mean over tokens, standardized on the training rows.
It is logistic regression with the defaults of scikit-learn (L2, C = 1), or ridge regression
(alpha = 1) in regression tasks.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sclsearch.canonical import canonical
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.methods.base import Model
from sclsearch.methods.solve import fit_head
from sclsearch.protocols.base import Rows, Splits, by_split
from sclsearch.tasks.base import Labels, TaskData
from sclsearch.tasks.metrics import evaluate
from sclsearch.training.data import Tokens
from sclsearch.training.device import backend_here
from sclsearch.training.evaluation import Features, compute_features

MAJORITY = "majority class"
LOGISTIC = "logistic regression on the frozen encoder"
RIDGE = "ridge regression on the frozen encoder"
MOST_ROWS_ON_CPU = 20_000
"""Most distinct rows for the linear model on a CPU (some minutes); with more it is left out."""

BATCH, REPEATS = (8, 64), 2
"""Texts of a batch on a CPU and on a GPU, and batches, that measure the speed of an encoder."""

Evaluations = Mapping[str, Mapping[str, Any]]


def baselines(
    data: TaskData,
    tokens: Mapping[str, Tokens],
    splits: Mapping[int, Splits],
    encoder: Encoder,
    metric: str,
    *,
    gpu: bool = True,
) -> dict[int, dict[str, Evaluations]]:
    """Return each replicate's evaluations of each baseline on its validation and test rows."""
    backend = backend_here(gpu=gpu)
    every = tuple(rows for one in splits.values() for rows in (one.train, one.validation, one.test))
    features = None
    distinct = sum(len(index) for index in by_split(every).values())
    if backend.device.type == "cuda" or distinct <= MOST_ROWS_ON_CPU:
        model = Model(encoder, nn.ModuleDict()).to(backend.device)
        features = compute_features(model, tokens, every, "mean", backend)
    by_rows: dict[str, dict[str, Evaluations]] = {}
    found = {}
    for number, one in splits.items():
        key = canonical(one.digests)
        if key not in by_rows:
            by_rows[key] = _of_replicate(data, one, features, metric)
        found[number] = by_rows[key]
    return found


def _of_replicate(
    data: TaskData, splits: Splits, features: Features | None, metric: str
) -> dict[str, Evaluations]:
    regression, y = data.task.regression, splits.train.labels(data)
    predictors: dict[str, Callable[[Rows], tuple[Any, Any]]] = {}
    if not regression:
        shares = np.bincount(y, minlength=len(data.task.labels)) / len(y)

        def majority(rows: Rows) -> tuple[Any, Any]:
            probabilities = np.tile(shares, (len(rows.index), 1))
            return probabilities.argmax(1), probabilities

        predictors[MAJORITY] = majority
    if features is not None and len(np.unique(y)) > 1:
        model = _fitted(features, splits.train, y, regression=regression)

        def linear(rows: Rows) -> tuple[Any, Any]:
            values = _values(features, rows)
            probabilities = np.zeros((len(values), len(data.task.labels)))
            if not regression:
                probabilities[:, model.classes_] = model.predict_proba(values)
            return model.predict(values), probabilities

        predictors[RIDGE if regression else LOGISTIC] = linear
    evaluated = {n: rows for n, rows in splits.rows.items() if n in {"validation", "test"}}
    found: dict[str, Evaluations] = {}
    for name, predict in predictors.items():
        predicted = {n: predict(rows) for n, rows in evaluated.items()}
        evaluations: dict[str, Mapping[str, Any]] = {
            n: evaluate(data.task, rows.labels(data), *predicted[n], metric)
            for n, rows in evaluated.items()
        }
        predictions = {n: values.tolist() for n, (values, _) in predicted.items()}
        found[name] = evaluations | {"predictions": predictions}
    return found


def texts_per_second(encoder: Encoder, length: int) -> float:
    """Return how many texts of so many tokens the encoder reads in a second, in batches."""
    device = next(encoder.parameters()).device
    rows = BATCH[device.type == "cuda"]
    ids = torch.full((rows, length), 5, device=device)
    times = []
    with torch.inference_mode():
        for _ in range(1 + REPEATS):  # the first one warms up
            began = time.perf_counter()
            states = encoder.model(input_ids=ids, attention_mask=torch.ones_like(ids))
            states.last_hidden_state.sum().item()
            times.append(time.perf_counter() - began)
    return rows / min(times[1:])


def linear_head(
    encoder: Encoder, data: TaskData, tokens: Mapping[str, Tokens], rows: Rows, *, gpu: bool
) -> Head:
    """Return the linear model, fitted on some rows, as a head on the encoder's mean over tokens.

    It has the probabilities of the linear model. A class without a row has probability 0.
    """
    backend = backend_here(gpu=gpu)
    model = Model(encoder, nn.ModuleDict()).to(backend.device)
    features = compute_features(model, tokens, (rows,), "mean", backend)
    labels = data.task.labels
    head = Head(encoder.width, len(labels), hidden=False)
    fit_head(head, _linear(regression=not labels), _values(features, rows), rows.labels(data))
    return head


def _fitted(features: Features, rows: Rows, y: Labels, *, regression: bool) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        linear = _linear(regression=regression)
        return make_pipeline(StandardScaler(), linear).fit(_values(features, rows), y)


def _linear(*, regression: bool) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    return Ridge() if regression else LogisticRegression(max_iter=1000)


def _values(features: Features, rows: Rows) -> npt.NDArray[np.float64]:
    position = features.position[rows.split][rows.index]
    return features.values.cpu().numpy()[position].astype(np.float64)
