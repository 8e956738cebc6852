"""Tests of the figures: shares of a confusion matrix, and labels of any text."""

import re

import numpy as np
import pytest

from sclsearch.reports.comparison_tables import text_frame
from sclsearch.reports.page.figures import as_svg, confusion_plot, embedding_plot, style
from sclsearch.reports.page.results import with_dots


def test_cells_of_a_confusion_matrix_are_shares_of_the_true_class() -> None:
    (axes,) = confusion_plot(np.array([[8.0, 2.0], [0.0, 40.0]]), ["no", "yes"]).axes
    cells = {(text.get_position()): text.get_text() for text in axes.texts}
    assert cells[0, 0] == "8.0\n80%"
    assert cells[1, 0] == "2.0\n20%"  # true class no, predicted class yes
    assert cells[1, 1] == "40.0\n100%"


def test_dots_share_an_axis_and_an_arrow_is_a_baseline_beyond_its_ends() -> None:
    cells = text_frame([("#0",), ("#1",), ("majority class",)], ("",))
    with_dots(cells, 1, [[0.90, 0.91], [0.92], [0.25]], "test", 2)
    assert cells.columns[1] == "test of each seed, 0.90 … 0.92"
    places = [re.findall(r'cx="(\d+)"', str(strip)) for strip in cells.iloc[:, 1]]
    assert places == [["9", "100"], ["191"], []]
    assert 'd="M2 9l6' in str(cells.iloc[2, 1])


@pytest.mark.filterwarnings("error")
def test_labels_of_any_text_are_short_and_raise_no_warning() -> None:
    labels = ["\N{GRINNING FACE}", "a\nb", "x" * 10_000]
    with style():
        text = as_svg(confusion_plot(np.eye(3), labels), "classes")
        found = as_svg(embedding_plot(np.eye(3), np.arange(3), labels, None), "map")
    assert labels[0] in text
    assert "a b" in text
    assert "x" * 31 not in text + found
