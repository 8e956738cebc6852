"""Tests of the figures: positions of scores, shares, labels and colors."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sclsearch import select
from sclsearch.reports.page.plots import (
    as_png,
    as_svg,
    confusion_plot,
    embedding_plot,
    forest_plot,
    hyperparameter_plot,
    looks,
    seed_plot,
    style,
)
from sclsearch.selection.significance import compare
from tests.reports.conftest import WriteStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "kind": {"type": "choice", "values": ["mean", "cls"]},
    "rate": {"type": "log", "low": 0.001, "high": 0.1},
}


def points(figure: "Figure", marker: str) -> list[list[float]]:
    """Return the positions of all markers of one shape."""
    found = [line for line in figure.axes[0].lines if line.get_marker() == marker]
    return [point for line in found for point in np.asarray(line.get_xydata()).tolist()]


def test_scores_stand_at_their_seeds_and_values(write_study: WriteStudy) -> None:
    values = [{"kind": "cls", "rate": 0.01}, {"kind": "mean", "x": 1}, {"kind": "mean"}]
    scores = [[(80, 70), (90, 60)], [(70, 50), "nan"], [(60, 40), (50, 30)]]
    report = select("made-up", storage=write_study(*scores, values=values))
    lines = report.configurations
    assert [line.number for line in lines] == [0, 2, 1]
    figure = seed_plot(lines, report.baselines, "test", "accuracy")
    assert points(figure, "o") == [[0.7, 0], [0.6, 0], [0.4, 1], [0.3, 1], [0.5, 2]]
    figure = hyperparameter_plot(lines, "kind", PARAMETERS["kind"], "accuracy")
    assert points(figure, "o") == [[1, pytest.approx(0.85)], [0, pytest.approx(0.55)], [0, 0.7]]
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["mean", "cls"]
    # Only the first configuration has a rate.
    figure = hyperparameter_plot(lines, "rate", PARAMETERS["rate"], "accuracy")
    assert points(figure, "_") == [[0.01, 0.8], [0.01, 0.9]]
    low, high = figure.axes[0].get_xlim()
    assert low < 0.001
    assert high > 0.1


def test_cells_of_a_confusion_matrix_are_shares_of_the_true_class() -> None:
    (axes, _) = confusion_plot(np.array([[8.0, 2.0], [0.0, 40.0]]), ["no", "yes"]).axes
    cells = {(text.get_position()): text.get_text() for text in axes.texts}
    assert cells[0, 0] == "8.0\n80%"
    assert cells[1, 0] == "2.0\n20%"  # true class no, predicted class yes
    assert cells[1, 1] == "40.0\n100%"


def test_differences_and_intervals_stand_in_points() -> None:
    one = compare([0.1, 0.2, 0.4], [0.0, 0.0, 0.1])
    figure = forest_plot(["better"], [one], [(-0.5, 0.75)], "accuracy")
    found = [np.asarray(line.get_xdata()).tolist() for line in figure.axes[0].lines[:3]]
    assert one.interval is not None
    low, high = one.interval
    assert found == [[-50, 75], pytest.approx([100 * low, 100 * high]), pytest.approx([20])]


def test_series_and_classes_differ_in_more_than_color() -> None:
    found = looks(36)
    assert len({(color, str(line)) for color, _, line in found}) == 36
    assert len({(marker, str(line)) for _, marker, line in found}) == 36
    classes = embedding_plot(np.eye(36), np.arange(36), ["label"] * 36, None).axes[0].collections
    assert (
        len({(str(one.get_facecolor()), str(one.get_paths()[0].vertices)) for one in classes}) == 36
    )


@pytest.mark.filterwarnings("error")
def test_labels_of_any_text_are_short_and_raise_no_warning() -> None:
    labels = ["\N{GRINNING FACE}", "a\nb", "x" * 10_000]
    with style():
        text = as_svg(confusion_plot(np.eye(3), labels)).decode()
        found = embedding_plot(np.eye(3), np.arange(3), labels, None)
        as_png(found)
    assert labels[0] in text
    assert "a b" in text
    assert f">{'x' * 17}…<" in text
    assert "x" * 31 not in as_svg(found).decode()
