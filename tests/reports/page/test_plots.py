"""Tests of the figures: shares of a confusion matrix, and labels of any text."""

import numpy as np
import pytest

from sclsearch.reports.page.plots import (
    as_png,
    as_svg,
    confusion_plot,
    embedding_plot,
    seed_plot,
    style,
)
from sclsearch.reports.report import report
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.reports.conftest import WriteStudy


def test_cells_of_a_confusion_matrix_are_shares_of_the_true_class() -> None:
    (axes, _) = confusion_plot(np.array([[8.0, 2.0], [0.0, 40.0]]), ["no", "yes"]).axes
    cells = {(text.get_position()): text.get_text() for text in axes.texts}
    assert cells[0, 0] == "8.0\n80%"
    assert cells[1, 0] == "2.0\n20%"  # true class no, predicted class yes
    assert cells[1, 1] == "40.0\n100%"


def test_a_baseline_far_from_the_scores_is_an_arrow_at_the_edge_of_the_axis(
    write_study: WriteStudy,
) -> None:
    storage = write_study([(90, 90), (92, 92)], baselines={LOGISTIC: 89, MAJORITY: 25})
    found = report(storage, "made-up")
    figure = seed_plot(found.configurations, found.baselines, "test", "accuracy")
    low, high = figure.axes[0].get_xlim()
    assert 0.85 < low < 0.89
    assert 0.92 < high < 0.95
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        "baseline: majority class, 0.2500, off the axis",
        f"baseline: {LOGISTIC}, 0.8900",
    ]


@pytest.mark.filterwarnings("error")
def test_labels_of_any_text_are_short_and_raise_no_warning() -> None:
    labels = ["\N{GRINNING FACE}", "a\nb", "x" * 10_000]
    with style():
        text = as_svg(confusion_plot(np.eye(3), labels)).decode()
        found = embedding_plot(np.eye(3), np.arange(3), labels, None)
        as_png(found)
    assert labels[0] in text
    assert "a b" in text
    assert "x" * 31 not in text + as_svg(found).decode()
