"""Linear heads that scikit-learn fits to the embeddings of the training rows."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from sclsearch.encoders.heads import Head

Numbers = npt.NDArray[Any]

STRENGTHS, FOLDS = (0.01, 0.1, 1.0, 10.0), 5
"""Values of C from which cross-validation chooses by the log loss, and its most folds."""
NEVER = -1e4
"""Logit of a class without training rows."""


def solve_head(head: "Head", features: Numbers, y: Numbers, *, balanced: bool = False) -> None:
    """Fit a head to features `[rows, d]` and classes or scores `[rows]`, all standardized.

    The head is logistic regression with an L2 penalty, whose C has the lowest log loss on up to 5
    folds of the rows; it is 1 if a class has a single row. With `balanced`, classes have the
    weights n / (C n_c). In regression it is ridge regression (alpha = 1).
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    if head.regression:
        fit_head(head, Ridge(), features, y)
        return
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) == 1:
        _copy(head, np.zeros((1, features.shape[1])), np.zeros(1), classes)
        return
    weights = "balanced" if balanced else None
    linear: Any = LogisticRegression(max_iter=1000, class_weight=weights)
    if counts.min() > 1:
        folds = StratifiedKFold(min(FOLDS, counts.min()), shuffle=True, random_state=0)
        linear = GridSearchCV(linear, {"C": STRENGTHS}, cv=folds, scoring="neg_log_loss")
    fit_head(head, linear, features, y)


def fit_head(head: "Head", linear: Any, features: Numbers, y: Numbers) -> None:
    """Fit a linear model of scikit-learn to standardized features, and copy it to a head.

    The head has the probabilities of the model. A class without a row has probability 0.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(features)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        linear.fit(scaler.transform(features), y)
    linear = getattr(linear, "best_estimator_", linear)
    weight = np.atleast_2d(linear.coef_) / scaler.scale_  # [outputs, d]
    bias = np.atleast_1d(linear.intercept_) - weight @ scaler.mean_
    present = np.zeros(1, np.int64) if head.regression else linear.classes_
    if len(present) == 2:  # one output, the logit of the second class
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    _copy(head, weight, bias, present)


def _copy(head: "Head", weight: Numbers, bias: Numbers, present: Numbers) -> None:
    """Write the weights of the outputs of some classes to a head, whose other classes get none."""
    with torch.no_grad():
        head.out.weight.zero_()
        head.out.bias.fill_(NEVER)
        rows = torch.from_numpy(present)
        head.out.weight[rows] = torch.from_numpy(weight).to(head.out.weight)
        head.out.bias[rows] = torch.from_numpy(bias).to(head.out.bias)
