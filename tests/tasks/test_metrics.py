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
    "macro_f1": lambda true, predicted: sklearn_metrics.f1_score(
        true, predicted, average="macro", zero_division=0
    ),
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
    stored = json.loads(json.dumps(evaluate(task, np.array(true), predicted)))
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
    stored = json.loads(json.dumps(evaluate(TASKS["stsb"], true, predicted)))
    assert stored["mse"] == pytest.approx(sklearn_metrics.mean_squared_error(true, predicted))
    for name, correlation in SCIPY.items():
        varies = np.ptp(predicted) and np.ptp(true)
        expected = correlation(predicted, true).statistic if varies else 0.0
        assert value(name, stored) == pytest.approx(expected, abs=1e-9)


def test_the_worst_predictions_get_the_minimum_of_each_metric() -> None:
    two = Task("two", "", ("a", "b"), "accuracy")
    worst = evaluate(two, np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]))
    reversed_scores = evaluate(TASKS["stsb"], np.arange(3.0), np.arange(3.0)[::-1])
    for name, metric in METRICS.items():
        found = value(name, worst if metric.needs == "classes" else reversed_scores)
        assert found == pytest.approx(metric.minimum)
