"""Tests of the figures: shares of a confusion matrix, and labels of any text."""

import numpy as np
import pytest

from sclsearch.reports.comparison_tables import text_frame
from sclsearch.reports.page.figures import as_svg, confusion_plot, embedding_plot, style
from sclsearch.reports.page.results import with_dots


def test_cells_of_a_confusion_matrix_are_shares_of_the_true_class() -> None:
    (axes,) = confusion_plot([np.array([[8.0, 2.0], [0.0, 40.0]])], ["no", "yes"]).axes
    cells = {(text.get_position()): text.get_text() for text in axes.texts}
    assert cells[0, 0] == "8.0\n80%"
    assert cells[1, 0] == "2.0\n20%"  # true class no, predicted class yes
    assert cells[1, 1] == "40.0\n100%"


def test_dots_share_an_axis_within_the_bounds_of_the_metric() -> None:
    cells = text_frame([("#0",), ("#1",), ("majority class",)], ("",))
    with_dots(cells, 1, [[0.90, 0.91], [0.92], [0.25]], "test", "accuracy", 2)
    first, second, beyond = cells["test accuracy of each seed"]
    assert (first, second) == ([9.1, 100.0], [190.9])
    assert beyond[0] < 0
    assert cells.attrs["ticks"] == {"0.9": 9.1, "0.91": 100.0, "0.92": 190.9}
    with_dots(cells, 1, [[-1.0, 1.0], [], []], "test", "pearson", 1)
    assert cells["test pearson of each seed"][0] == [0, 200]


@pytest.mark.filterwarnings("error")
def test_labels_of_any_text_are_short_and_raise_no_warning() -> None:
    labels = ["\N{GRINNING FACE}", "a\nb", "x" * 10_000]
    with style():
        text = as_svg(confusion_plot([np.eye(3)], labels), "classes")
        found = as_svg(embedding_plot(np.eye(3), np.arange(3), labels, None), "map")
    assert labels[0] in text
    assert "a b" in text
    assert "x" * 31 not in text + found
