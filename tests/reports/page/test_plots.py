"""Tests of the figures: shares of a confusion matrix, and labels of any text."""

import numpy as np
import pytest

from sclsearch.reports.page.plots import as_png, as_svg, confusion_plot, embedding_plot, style


def test_cells_of_a_confusion_matrix_are_shares_of_the_true_class() -> None:
    (axes, _) = confusion_plot(np.array([[8.0, 2.0], [0.0, 40.0]]), ["no", "yes"]).axes
    cells = {(text.get_position()): text.get_text() for text in axes.texts}
    assert cells[0, 0] == "8.0\n80%"
    assert cells[1, 0] == "2.0\n20%"  # true class no, predicted class yes
    assert cells[1, 1] == "40.0\n100%"


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
