"""Tests of the statistics of a winner: classes, calibration, mistakes, geometry."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from sclsearch.reports.page.winner import (
    calibration,
    class_scores,
    collapsed,
    mistakes,
)


def test_class_scores_equal_those_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    y, predicted = draw.integers(3, size=(2, 200))
    counts = confusion_matrix(y, predicted).astype(float)
    expected = precision_recall_fscore_support(y, predicted)
    for number, scores in enumerate(class_scores([counts, counts])):
        means = [mean for mean, _ in scores]
        assert means == pytest.approx([part[number] for part in expected[:3]])
        assert all(std == 0 for _, std in scores)
    _, never = class_scores([np.array([[5.0, 0.0], [2.0, 0.0]])])
    assert never == [(0, None)] * 3


def predictions(sure: list[float], right: list[bool], replicate: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "replicate": replicate,
            "split": "test",
            "label": ["a" if one else "b" for one in right],
            "predicted": "a",
            "probability_a": sure,
            "probability_b": [1 - one for one in sure],
        }
    )


def test_the_calibration_error_is_the_gap_of_accuracy_and_confidence_over_the_seeds() -> None:
    # Two bins: confidence 0.6 with accuracy 0.5, and 0.9 with accuracy 1.
    frame = predictions([0.6, 0.6, 0.9, 0.9], [True, False, True, True])
    found = calibration(frame)
    assert found is not None
    bins, (error, deviation) = found
    assert bins == [(0.6, 0.5, 2), (0.9, 1.0, 2)]
    assert error == pytest.approx((2 * 0.1 + 2 * 0.1) / 4)
    assert deviation is None
    over, under = predictions([1.0, 1.0], [True, False]), predictions([1.0], [True], 1)
    found = calibration(pd.concat([over, under]))
    assert found is not None
    bins, (error, _) = found
    assert error == pytest.approx((0.5 + 0) / 2)
    assert bins[0] == pytest.approx((1.0, 2 / 3, 3))
    assert calibration(frame.assign(probability_a=None, probability_b=None)) is None


def test_mistakes_are_sorted_by_their_share_of_the_seeds_that_test_the_row() -> None:
    rows = [
        *[(0, 7, "a", one) for one in ("b", "b", "c", "a")],
        *[(0, 5, "a", one) for one in ("c", "c")],
        (0, 9, "a", "a"),
    ]
    frame = pd.DataFrame(rows, columns=["replicate", "source_row", "label", "predicted"])
    found = mistakes(frame.assign(source="dev"), 5)
    assert list(found.itertuples(name=None)) == [
        (("dev", 5), "a", 2, 2, "c"),
        (("dev", 7), "a", 3, 4, "b"),
    ]
    pd.testing.assert_frame_equal(mistakes(frame.assign(source="dev"), 1), found[:1])


def test_equal_directions_are_a_collapsed_encoder() -> None:
    assert collapsed(np.array([[0.6, 0.8], [0.6, 0.8 + 1e-7], [1.2, 1.6]]))
    assert not collapsed(np.array([[1.0, 0], [0, 1.0], [-1.0, 0]]))
