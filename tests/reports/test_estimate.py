"""Tests of the estimate of a winner's score on new texts."""

import numpy as np
import pytest

from sclsearch.reports.estimate import Estimate, corrected_estimate


def estimated(right: np.ndarray) -> Estimate:
    """Return the estimate of the best accuracy from correct predictions, `[C, rows]`."""
    winner = int(right.mean(1).argmax())
    return corrected_estimate(lambda drawn: right[:, drawn].mean(1), right.shape[1], winner)


def test_one_configuration_needs_no_correction() -> None:
    right = np.random.default_rng(0).random((1, 200)) < 0.8
    found = estimated(right)
    assert found.score == pytest.approx(right.mean(), abs=0.005)
    half = 1.96 * (0.8 * 0.2 / 200) ** 0.5
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.15)


def test_the_best_of_many_coins_is_estimated_at_one_half() -> None:
    draw = np.random.default_rng(1)
    tosses = [draw.random((20, 80)) < 0.5 for _ in range(30)]
    found = [estimated(one) for one in tosses]
    assert np.mean([one.mean(1).max() for one in tosses]) > 0.59
    assert np.mean([one.score for one in found]) == pytest.approx(0.5, abs=0.015)
    covered = np.mean([one.low <= 0.5 <= one.high for one in found])
    assert covered > 0.85


def test_an_interval_without_an_error_begins_three_rows_below() -> None:
    found = estimated(np.ones((3, 50), bool))
    assert (found.score, found.low, found.high) == (1.0, 1 - 3 / 50, 1.0)
