"""Metrics: of classes from a confusion matrix, of scores from predicted and true values."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.base import Labels, Task

Counts = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Metric:
    """How good predictions are, the higher the better.

    Attributes:
        name: The name on the command line, `mcc`.
        summary: One line for people.
        minimum: The score of a seed that failed: what a useless classifier gets, or the worst.
        needs: `classes`: the function takes counts `[C, C]`, rows true, columns predicted;
            `scores`: it takes predicted and true values, `[rows]` each.
        function: The metric itself.
        binary: Whether it is defined for two classes alone.
    """

    name: str
    summary: str
    minimum: float
    needs: Literal["classes", "scores"]
    function: Callable[..., float]
    binary: bool = False

    def check(self, classes: int, where: str) -> None:
        """Refuses what the metric cannot measure.

        Args:
            classes: Number of classes; 0 in regression.
            where: Start of the error: an option or a file.

        Raises:
            SclsearchError: The metric needs classes and there are scores, or the other way round,
                or it needs two classes and there are more.
        """
        kind = "classes" if classes else "scores"
        need = "two classes" if self.binary else self.needs
        if kind != self.needs or (self.binary and classes != 2):
            fitting = [name for name, m in METRICS.items() if m.needs == kind and not m.binary]
            raise SclsearchError(
                f"{where}: the metric {self.name!r} needs {need}, but there are "
                f"{classes or 'no'} classes. Take one of {', '.join(fitting)}."
            )

    def check_rows(self, y: Labels, task: Task, where: str) -> None:
        """Raises SclsearchError where it is of the second class and validation has no row of it."""
        if self.binary and not y.any():
            raise SclsearchError(
                f"{where}: the metric {self.name} must have validation rows of the class "
                f"{task.labels[1]!r}, but there are none. Add some, or take macro_f1 or another."
            )


def accuracy(counts: Counts) -> float:
    """Share of the rows whose class is predicted; 0 without rows."""
    return _ratio(float(np.trace(counts)), float(counts.sum()))


def mcc(counts: Counts) -> float:
    """Matthews' correlation for any number of classes; 0 where one side has one class only."""
    true, predicted, rows = counts.sum(1), counts.sum(0), int(counts.sum())
    shared = int(np.trace(counts)) * rows - int(true @ predicted)
    spread_true = rows**2 - int(true @ true)
    spread_predicted = rows**2 - int(predicted @ predicted)
    return _ratio(shared, math.sqrt(spread_true * spread_predicted))


def f1(counts: Counts) -> float:
    """F1 of class 1; 0 where it is neither there nor predicted."""
    return float(f1_by_class(counts)[1])


def macro_f1(counts: Counts) -> float:
    """Mean F1 of the classes that are there or are predicted; the others do not count."""
    seen = counts.sum(0) + counts.sum(1) > 0
    return float(f1_by_class(counts)[seen].mean()) if seen.any() else 0.0


def pearson(predicted: Scores, true: Scores) -> float:
    """Pearson's correlation; 0 where one side is constant, for which it is not defined."""
    if np.ptp(predicted) == 0 or np.ptp(true) == 0:
        return 0.0
    x, y = predicted - predicted.mean(), true - true.mean()
    norms = float(np.linalg.norm(x)) * float(np.linalg.norm(y))
    return max(-1.0, min(1.0, _ratio(float(x @ y), norms)))


def spearman(predicted: Scores, true: Scores) -> float:
    """Pearson's correlation of the ranks, ties sharing their mean rank; 0 as there."""
    from scipy.stats import rankdata

    return pearson(rankdata(predicted), rankdata(true))


MAXIMUM = 1.0
"""The score of predictions without a fault, whatever the metric."""
METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("accuracy", "share of rows predicted right", 0.0, "classes", accuracy),
            Metric("mcc", "Matthews' correlation coefficient", -1.0, "classes", mcc),
            Metric("f1", "F1 of class 1, of two", 0.0, "classes", f1, binary=True),
            Metric("macro_f1", "mean F1 of the classes", 0.0, "classes", macro_f1),
            Metric("pearson", "Pearson's correlation", -1.0, "scores", pearson),
            Metric("spearman", "Spearman's rank correlation", -1.0, "scores", spearman),
        )
    }
)


def confusion(y_true: npt.ArrayLike, y_pred: npt.ArrayLike, classes: int) -> Counts:
    """Returns how often each class is predicted as each, `[C, C]`, rows true."""
    pairs = np.asarray(y_true, np.int64) * classes + np.asarray(y_pred, np.int64)
    return np.bincount(pairs, minlength=classes**2).astype(np.int64).reshape(classes, classes)


def evaluate(task: Task, y_true: Labels, predictions: npt.ArrayLike) -> dict[str, object]:
    """Returns an evaluation as it is stored.

    Args:
        task: Whether there are classes, and how many.
        y_true: Class or score of each row, `[rows]`.
        predictions: Predicted class or score of each row, `[rows]`.

    Returns:
        `{"confusion": [[...]]}`, exact counts from which every class metric follows, or in
        regression `{"pearson": x, "spearman": x, "mse": x}`.
    """
    if not task.regression:
        return {"confusion": confusion(y_true, predictions, len(task.labels)).tolist()}
    true, predicted = np.asarray(y_true, np.float64), np.asarray(predictions, np.float64)
    return {
        "pearson": pearson(predicted, true),
        "spearman": spearman(predicted, true),
        "mse": float(np.mean((predicted - true) ** 2)),
    }


def value(metric_name: str, evaluation: Mapping[str, Any]) -> float:
    """Returns what a metric says of a stored evaluation.

    Raises:
        SclsearchError: There is no such metric, or the evaluation is of another kind.
    """
    metric = lookup(METRICS, metric_name, "metric")
    counts = np.array(evaluation.get("confusion", []), np.int64)
    metric.check(len(counts), "evaluation")
    if metric.needs == "classes":
        return metric.function(counts)
    return float(evaluation[metric_name])


def f1_by_class(counts: Counts) -> npt.NDArray[np.float64]:
    """F1 of each class, `[C]`; 0 for a class that is neither there nor predicted."""
    hits = 2 * np.diag(counts)
    shares: npt.NDArray[np.float64] = hits / np.maximum(counts.sum(0) + counts.sum(1), 1)
    return shares


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
