"""Tests of heads that scikit-learn fits."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from sclsearch.encoders.heads import Head
from sclsearch.methods.solve import STRENGTHS, solve_head


def data(classes: int, rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    y = np.arange(rows) % classes
    return draw.normal(3, 2, (rows, 6)) + y[:, None], y


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("balanced", [False, True])
def test_a_solved_head_has_the_probabilities_of_scikit_learn_at_one_of_the_strengths(
    classes: int, *, balanced: bool
) -> None:
    x, y = data(classes)
    keep = (y > 0) | (np.arange(len(y)) % 4 == 0)
    x, y = x[keep], y[keep]
    head = Head(6, classes + 1, hidden=False).eval()
    solve_head(head, x, y, balanced=balanced)
    with torch.no_grad():
        found = head(torch.from_numpy(x).float(), 0.0).softmax(-1).numpy()
    assert found[:, classes].max() == 0  # a class without a row
    scaled = StandardScaler().fit_transform(x)
    options = {"max_iter": 1000, "class_weight": "balanced" if balanced else None}
    expected = [LogisticRegression(C=c, **options).fit(scaled, y) for c in STRENGTHS]
    gaps = [abs(found[:, :classes] - one.predict_proba(scaled)).max() for one in expected]
    assert min(gaps) < 1e-4


def test_a_solved_head_of_scores_is_ridge_regression_and_one_class_is_always_predicted() -> None:
    x, y = data(3)
    head = Head(6, 0, hidden=False).eval()
    solve_head(head, x, y.astype(float))
    expected = Ridge().fit(StandardScaler().fit_transform(x), y)
    with torch.no_grad():
        found = head(torch.from_numpy(x).float(), 0.0).numpy()
    assert found == pytest.approx(expected.predict(StandardScaler().fit_transform(x)), abs=1e-4)
    head = Head(6, 3, hidden=False).eval()
    solve_head(head, x, np.ones(len(x), np.int64))
    with torch.no_grad():
        assert {*head(torch.from_numpy(x).float(), 0.0).argmax(-1).tolist()} == {1}
