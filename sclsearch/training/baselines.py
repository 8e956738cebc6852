"""Baselines of every report: the majority class, and a linear model on the frozen encoder.

Both use the rows of each replicate, as its seed runs do. The linear model reads the pretrained
encoder's mean over tokens, standardized on the training rows. It is logistic regression with the
defaults of scikit-learn (L2, C = 1), or ridge regression (alpha = 1) in regression tasks.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sclsearch.canonical import canonical
from sclsearch.encoders.encoder import Encoder
from sclsearch.methods.base import Model
from sclsearch.protocols.base import Rows, Splits
from sclsearch.tasks.base import Labels, TaskData
from sclsearch.tasks.metrics import evaluate
from sclsearch.training.evaluation import Features, compute_features
from sclsearch.training.tokens import TokenizedTask

MAJORITY = "majority class"
LOGISTIC = "logistic regression on the frozen encoder"
RIDGE = "ridge regression on the frozen encoder"
POOLING = "mean"
MOST_ROWS_ON_CPU = 20_000
"""Most distinct rows for the linear model on a CPU (some minutes); with more it is left out."""

Evaluations = Mapping[str, Mapping[str, Any]]


def baselines(
    data: TaskData, tokens: TokenizedTask, splits: Mapping[int, Splits], encoder: Encoder
) -> dict[int, dict[str, Evaluations]]:
    """Return the evaluations of each baseline on the validation and test rows of each replicate.

    Args:
        data: The task.
        tokens: Tokenized rows of the task.
        splits: Splits of each replicate, by its number.
        encoder: The pretrained encoder.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    every = tuple(rows for one in splits.values() for rows in (one.train, one.validation, one.test))
    features = None
    if device.type == "cuda" or _distinct(every) <= MOST_ROWS_ON_CPU:
        model = Model(encoder, nn.ModuleDict()).to(device)
        features = compute_features(model, tokens, every, POOLING, device)
    known: dict[str, dict[str, Evaluations]] = {}
    found = {}
    for number, one in splits.items():
        key = canonical(one.digests)
        if key not in known:
            known[key] = _of_replicate(data, one, features)
        found[number] = known[key]
    return found


def _of_replicate(
    data: TaskData, splits: Splits, features: Features | None
) -> dict[str, Evaluations]:
    train = splits.train.labels(data)
    found: dict[str, Evaluations] = {}
    if not data.task.regression:
        largest = np.bincount(train, minlength=len(data.task.labels)).argmax()
        found[MAJORITY] = _evaluations(
            data, splits, lambda rows: np.full(len(rows.index), largest, np.int64)
        )
    if features is not None and len(set(train.tolist())) > 1:
        model = _fitted(_values(features, splits.train), train, regression=data.task.regression)
        found[RIDGE if data.task.regression else LOGISTIC] = _evaluations(
            data, splits, lambda rows: model.predict(_values(features, rows))
        )
    return found


def _fitted(x: npt.NDArray[np.float64], y: Labels, *, regression: bool) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = Ridge() if regression else LogisticRegression(max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), linear).fit(x, y)


def _evaluations(data: TaskData, splits: Splits, predict: Any) -> Evaluations:
    rows = {"validation": splits.validation, "test": splits.test}
    return {name: evaluate(data.task, own.labels(data), predict(own)) for name, own in rows.items()}


def _values(features: Features, rows: Rows) -> npt.NDArray[np.float64]:
    position = features.position[rows.split][rows.index]
    return features.values.cpu().numpy()[position].astype(np.float64)


def _distinct(every: tuple[Rows, ...]) -> int:
    return len({(rows.split, row) for rows in every for row in rows.index.tolist()})
