"""Tests of the metrics against scikit-learn and scipy, and of stored evaluations."""

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn import metrics as sklearn_metrics

from sclsearch.tasks import TASKS
from sclsearch.tasks.base import Task
from sclsearch.tasks.metrics import METRICS, evaluate, value

SKLEARN: dict[str, Callable[..., float]] = {
    "accuracy": sklearn_metrics.accuracy_score,
    "mcc": sklearn_metrics.matthews_corrcoef,
    "f1": lambda true, predicted: sklearn_metrics.f1_score(true, predicted, zero_division=0),
    "f0.5": lambda *rows: sklearn_metrics.fbeta_score(*rows, beta=0.5, zero_division=0),
    "f2": lambda *rows: sklearn_metrics.fbeta_score(*rows, beta=2, zero_division=0),
    "macro_f1": lambda *rows: sklearn_metrics.f1_score(*rows, average="macro", zero_division=0),
    "weighted_f1": lambda *rows: sklearn_metrics.f1_score(
        *rows, average="weighted", zero_division=0
    ),
    "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
}
SCIPY: dict[str, Callable[..., Any]] = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}


@st.composite
def labeled(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    classes = draw(st.integers(2, 5))
    rows = draw(st.integers(1, 40))
    side = st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows)
    return classes, draw(side), draw(side)


@given(labeled())
@example((2, [1, 1, 1], [0, 1, 1]))
@example((2, [0, 1, 0], [1, 0, 1]))
@example((2, [0, 0], [0, 0]))
@example((4, [0, 3, 3], [0, 3, 0]))
@example((2, [0, 1, 0] * 40_000, [1, 1, 0] * 40_000))  # the product of its squares needs 128 bits
def test_class_metrics_of_a_stored_evaluation_agree_with_scikit_learn(
    rows: tuple[int, list[int], list[int]],
) -> None:
    classes, true, predicted = rows
    task = Task("toy", "", tuple("abcde"[:classes]), "accuracy")
    found = evaluate(task, np.array(true), predicted, np.eye(classes)[predicted], "accuracy")
    stored = json.loads(json.dumps(found))
    for name, reference in SKLEARN.items():
        if not METRICS[name].binary or classes == 2:
            with warnings.catch_warnings():  # scikit-learn warns if there is a single class
                warnings.simplefilter("ignore", UserWarning)
                expected = reference(true, predicted)
            assert value(name, stored) == pytest.approx(expected, abs=1e-12), name


@given(arrays(np.float64, (2, 9), elements=st.integers(-50, 50).map(lambda n: n / 8)))
@example(np.array([[0.1] * 7, range(7)]))  # the mean of the constant is rounded
def test_score_metrics_of_a_stored_evaluation_agree_with_scipy(sides: Any) -> None:
    predicted, true = sides
    found = evaluate(TASKS["stsb"], true, predicted, np.empty((9, 0)), "pearson")
    stored = json.loads(json.dumps(found))
    assert stored["mse"] == pytest.approx(sklearn_metrics.mean_squared_error(true, predicted))
    for name, correlation in SCIPY.items():
        varies = np.ptp(predicted) and np.ptp(true)
        expected = correlation(predicted, true).statistic if varies else 0.0
        assert value(name, stored) == pytest.approx(expected, abs=1e-9)


def test_metrics_of_probabilities_agree_with_scikit_learn_and_leave_out_classes_without_rows() -> (
    None
):
    draw = np.random.default_rng(0)
    for classes, rows in ((2, 30), (3, 50), (4, 50)):
        probabilities = draw.dirichlet(np.ones(classes), rows)
        y = draw.integers(0, min(classes, 3), rows)  # the last of four classes has no row
        one_hot = (y, probabilities[:, 1]) if classes == 2 else (np.eye(3)[y], probabilities[:, :3])
        for name, expected in {
            "roc_auc": sklearn_metrics.roc_auc_score(*one_hot),
            "average_precision": sklearn_metrics.average_precision_score(*one_hot),
            "neg_log_loss": -sklearn_metrics.log_loss(y, probabilities, labels=range(classes)),
        }.items():
            task = Task("toy", "", tuple("abcd"[:classes]), name)
            stored = evaluate(task, y, probabilities.argmax(1), probabilities, name)
            assert value(name, stored) == pytest.approx(expected, abs=1e-6), name
        assert METRICS["roc_auc"].function(probabilities, np.zeros(rows, np.int64)) == 0.0


def test_the_worst_predictions_get_the_minimum_of_each_metric() -> None:
    two, y = Task("two", "", ("a", "b"), "accuracy"), np.array([0, 1, 0, 1])
    for name, metric in METRICS.items():
        worst = evaluate(two, y, 1 - y, np.eye(2)[1 - y], name)
        if metric.needs == "scores":
            worst = evaluate(TASKS["stsb"], y, -y, np.empty((4, 0)), name)
        least = 0.5 if name == "average_precision" else metric.minimum
        assert value(name, worst) == pytest.approx(least), name
