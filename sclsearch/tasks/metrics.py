"""Metrics for classification, from counts or probabilities, and for regression, from scores."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Labels, Task

Counts = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]
Probabilities = npt.NDArray[np.floating[Any]]
LEAST_PROBABILITY = 1e-12
"""Smallest probability in a log loss, which would be infinite at 0."""
BINS = 15
"""Bins of equal width of the expected calibration error."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric of predictions; higher is better.

    With `classes` the function takes counts `[C, C]`, true classes in rows, predicted ones in
    columns. With `probabilities` it takes those of the classes, `[rows, C]`, and the true classes,
    `[rows]`. With `scores` it takes predicted and true values, `[rows]` each.
    """

    name: str
    minimum: float  # score of a failed seed: that of a useless classifier, or the worst
    needs: Literal["classes", "probabilities", "scores"]
    function: Callable[..., float]
    binary: bool = False  # defined for two classes only

    @property
    def span(self) -> float:
        return MAXIMUM - self.minimum

    def check(self, classes: int, where: str) -> None:
        """Raise SclsearchError if the metric does not support a task with so many classes.

        0 classes mean regression. `where`, an option or a file, begins the message.
        """
        if not self.fits(classes):
            need = "two classes" if self.binary else self.needs.replace("probabilities", "classes")
            fitting = [name for name, metric in METRICS.items() if metric.fits(classes)]
            raise SclsearchError(
                f"{where}: the metric {self.name!r} needs {need}, got {classes or 'no'} classes. "
                f"Use one of {', '.join(fitting)}."
            )

    def fits(self, classes: int) -> bool:
        """Return whether the metric supports a task with so many classes; 0 mean regression."""
        return (self.needs == "scores") == (not classes) and (classes == 2 or not self.binary)

    def check_rows(self, y: Labels, task: Task, where: str) -> None:
        """Raise SclsearchError if the rows, `where`, lack a class that the metric needs."""
        ranks = self.function in (roc_auc, average_precision) and len(np.unique(y)) < 2
        if ranks or (self.binary and not y.any()):
            need = "two classes, got one" if ranks else f"the class {task.labels[1]!r}, got none"
            raise SclsearchError(
                f"{where} rows: the metric {self.name} needs rows of {need}. Add some, pass fewer "
                "--folds, or use another metric, such as macro_f1."
            )


def accuracy(counts: Counts) -> float:
    """Return the share of correctly predicted rows; 0 without rows."""
    return _ratio(float(np.trace(counts)), float(counts.sum()))


def mcc(counts: Counts) -> float:
    """Return Matthews' correlation for any number of classes; 0 if one side has a single class."""
    true, predicted, rows = counts.sum(1), counts.sum(0), int(counts.sum())
    shared = int(np.trace(counts)) * rows - int(true @ predicted)
    spread_true = rows**2 - int(true @ true)
    spread_predicted = rows**2 - int(predicted @ predicted)
    return _ratio(shared, math.sqrt(spread_true * spread_predicted))


def f_beta(counts: Counts, beta: float = 1.0) -> float:
    """Return F of class 1, in which recall weighs `beta` times as much as precision.

    It is 0 if the class neither occurs nor is predicted.
    """
    hits, weight = float(counts[1, 1]), beta**2
    return _ratio((1 + weight) * hits, weight * float(counts[1].sum()) + float(counts[:, 1].sum()))


def macro_f1(counts: Counts) -> float:
    """Return the mean F1 of the classes that occur or are predicted; other classes do not count."""
    seen = counts.sum(0) + counts.sum(1) > 0
    return float(f1_by_class(counts)[seen].mean()) if seen.any() else 0.0


def weighted_f1(counts: Counts) -> float:
    """Return the mean F1 of the classes, weighted by their rows; 0 without rows."""
    return _ratio(float(f1_by_class(counts) @ counts.sum(1)), float(counts.sum()))


def balanced_accuracy(counts: Counts) -> float:
    """Return the mean recall of the classes that occur; 0 without rows."""
    rows = counts.sum(1)
    return float((np.diag(counts)[rows > 0] / rows[rows > 0]).mean()) if rows.any() else 0.0


def roc_auc(probabilities: Probabilities, y: Classes) -> float:
    """Return the area under the ROC curve, of two classes that of class 1, of more the mean."""
    from sklearn.metrics import roc_auc_score

    return _one_against_rest(roc_auc_score, probabilities, y)


def average_precision(probabilities: Probabilities, y: Classes) -> float:
    """Return the average precision, of two classes that of class 1, of more the mean."""
    from sklearn.metrics import average_precision_score

    return _one_against_rest(average_precision_score, probabilities, y)


def _one_against_rest(
    score: Callable[..., float], probabilities: Probabilities, y: Classes
) -> float:
    """Return the mean score of the classes with rows in and outside; 0 if there are none."""
    classes = range(probabilities.shape[1])[probabilities.shape[1] == 2 :]
    of_class = ((y == c, probabilities[:, c]) for c in classes)
    found = [score(*one) for one in of_class if 0 < one[0].sum() < len(y)]
    return float(np.mean(found)) if found else 0.0


def neg_log_loss(probabilities: Probabilities, y: Classes) -> float:
    """Return the mean log probability of the true classes, in nats."""
    true = probabilities[np.arange(len(y)), y].astype(np.float64)
    return float(np.log(true.clip(LEAST_PROBABILITY)).mean())


def calibration_error(probabilities: Probabilities, y: Classes) -> float:
    """Return the expected calibration error of the likeliest class over 15 bins of equal width."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == y
    return float(np.abs(np.bincount(bins_of(confidence), right - confidence)).sum() / len(y))


def bins_of(confidence: npt.NDArray[np.float64]) -> Classes:
    """Return the number of the bin of each confidence, `[N]`, from 1."""
    return np.ceil(confidence * BINS).astype(np.int64)


def pearson(predicted: Scores, true: Scores) -> float:
    """Return Pearson's correlation; 0 if one side is constant, where it is undefined."""
    if np.ptp(predicted) == 0 or np.ptp(true) == 0:
        return 0.0
    x, y = predicted - predicted.mean(), true - true.mean()
    norms = float(np.linalg.norm(x)) * float(np.linalg.norm(y))
    return max(-1.0, min(1.0, _ratio(float(x @ y), norms)))


def spearman(predicted: Scores, true: Scores) -> float:
    """Return Spearman's correlation, with mean ranks for ties; 0 if one side is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(predicted), rankdata(true))


MAXIMUM = 1.0
"""Highest possible score of a metric; that of neg_log_loss is lower, 0."""
METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", 0.0, "classes", accuracy),
        Metric("mcc", -1.0, "classes", mcc),
        Metric("f1", 0.0, "classes", f_beta, binary=True),
        Metric("f0.5", 0.0, "classes", partial(f_beta, beta=0.5), binary=True),
        Metric("f2", 0.0, "classes", partial(f_beta, beta=2.0), binary=True),
        Metric("macro_f1", 0.0, "classes", macro_f1),
        Metric("weighted_f1", 0.0, "classes", weighted_f1),
        Metric("balanced_accuracy", 0.0, "classes", balanced_accuracy),
        Metric("roc_auc", 0.0, "probabilities", roc_auc),
        Metric("average_precision", 0.0, "probabilities", average_precision),
        Metric("neg_log_loss", math.log(LEAST_PROBABILITY), "probabilities", neg_log_loss),
        Metric("pearson", -1.0, "scores", pearson),
        Metric("spearman", -1.0, "scores", spearman),
    )
}


def confusion(y_true: npt.ArrayLike, y_pred: npt.ArrayLike, classes: int) -> Counts:
    """Return the confusion matrix `[C, C]`: true classes in rows, predicted classes in columns."""
    pairs = np.asarray(y_true, np.int64) * classes + np.asarray(y_pred, np.int64)
    return np.bincount(pairs, minlength=classes**2).astype(np.int64).reshape(classes, classes)


def evaluate(
    task: Task,
    y_true: Labels,
    predictions: npt.ArrayLike,
    probabilities: Probabilities,
    metric_name: str,
) -> dict[str, object]:
    """Return the evaluation of the predicted classes or scores, in the form in which it is stored.

    It is `{"confusion": [[...]], "log_loss": x}` with exact counts, from which every class metric
    follows, and the metric if it needs probabilities. In regression it is
    `{"pearson": x, "spearman": x, "mse": x}`.
    """
    if not task.regression:
        y, metric = np.asarray(y_true, np.int64), METRICS[metric_name]
        found: dict[str, object] = {
            "confusion": confusion(y, predictions, len(task.labels)).tolist(),
            "log_loss": -neg_log_loss(probabilities, y),
        }
        if metric.needs == "probabilities":
            found[metric_name] = metric.function(probabilities, y)
        return found
    true, predicted = np.asarray(y_true, np.float64), np.asarray(predictions, np.float64)
    return {
        "pearson": pearson(predicted, true),
        "spearman": spearman(predicted, true),
        "mse": float(np.mean((predicted - true) ** 2)),
    }


def value(metric_name: str, evaluation: Mapping[str, Any]) -> float:
    """Return the value of a metric, computed from a stored evaluation."""
    metric = lookup(METRICS, metric_name, "metric")
    counts = np.array(evaluation.get("confusion", []), np.int64)
    metric.check(len(counts), "evaluation")
    if metric.needs == "classes":
        return metric.function(counts)
    return float(evaluation[metric_name])


def validation_loss(evaluation: Mapping[str, Any]) -> float:
    """Return the loss that decides between equal validation scores: log loss or squared error.

    It is infinite for an evaluation that has none.
    """
    return float(evaluation.get("log_loss", evaluation.get("mse", math.inf)))


def scores_by_class(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return precision, recall and F1 of each class, `[C, 3]`; a share of no rows is 0."""
    hits = np.diag(counts)
    precision = hits / np.maximum(counts.sum(0), 1)
    recall = hits / np.maximum(counts.sum(1), 1)
    return np.stack([precision, recall, f1_by_class(counts)], axis=1)


def f1_by_class(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return F1 of each class, `[C]`; 0 for a class that neither occurs nor is predicted."""
    hits = 2 * np.diag(counts)
    shares: npt.NDArray[np.float64] = hits / np.maximum(counts.sum(0) + counts.sum(1), 1)
    return shares


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
