"""Tests of the figures: positions of scores, missing hyperparameters, labels and colors."""

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
    hyperparameter_plot,
    inline_svg,
    looks,
    new_figure,
    seed_plot,
    style,
)
from sclsearch.reports.report import Report
from tests.reports.conftest import WriteStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "kind": {"type": "choice", "values": ["mean", "cls"]},
    "epochs": {"type": "choice", "values": [1, 5, 9]},
    "rate": {"type": "log", "low": 0.001, "high": 0.1},
}


@pytest.fixture
def report(write_study: WriteStudy) -> Report:
    """Return three configurations: the second has a failed seed, only the first has a rate."""
    values = [
        {"kind": "cls", "epochs": 5, "rate": 0.01},
        {"kind": "mean", "epochs": 9},
        {"kind": "mean", "epochs": 1},
    ]
    scores = [[(80, 70), (90, 60)], [(70, 50), "nan"], [(60, 40), (50, 30)]]
    return select("made-up", storage=write_study(*scores, values=values))


def points(figure: "Figure", marker: str) -> list[list[float]]:
    """Return the positions of all markers of one shape."""
    (axes,) = figure.axes
    found = [line for line in axes.lines if line.get_marker() == marker]
    return [
        [float(x), float(y)]
        for line in found
        for x, y in zip(*(np.asarray(data) for data in line.get_data()), strict=True)
    ]


def test_a_dot_plot_has_every_seed_that_did_not_fail(report: Report) -> None:
    figure = seed_plot(report.configurations, report.baselines, "test", "accuracy")
    assert [line.number for line in report.configurations] == [0, 2, 1]
    assert points(figure, "o") == [[0.7, 0], [0.6, 0], [0.4, 1], [0.3, 1], [0.5, 2]]
    # Hollow dots, filled dots and the mean of each configuration, however many seeds there are.
    faces = [line.get_markerfacecolor() for line in figure.axes[0].lines]
    assert (len(faces), faces.count("none")) == (9, 3)


def test_choices_are_plotted_in_the_order_of_the_space(report: Report) -> None:
    lines = report.configurations
    figure = hyperparameter_plot(lines, "kind", PARAMETERS["kind"], "accuracy")
    assert points(figure, "o") == [[1, pytest.approx(0.85)], [0, pytest.approx(0.55)], [0, 0.7]]
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["mean", "cls"]


def test_a_configuration_without_the_hyperparameter_is_left_out(report: Report) -> None:
    lines = report.configurations
    figure = hyperparameter_plot(lines, "rate", PARAMETERS["rate"], "accuracy")
    assert points(figure, "_") == [[0.01, 0.8], [0.01, 0.9]]
    low, high = figure.axes[0].get_xlim()
    assert low < 0.001
    assert high > 0.1


def test_series_differ_in_more_than_color() -> None:
    found = looks(36)
    assert len({(color, str(line)) for color, _, line in found}) == 36
    assert len({(marker, str(line)) for _, marker, line in found}) == 36


@pytest.mark.filterwarnings("error")
def test_labels_of_any_text_are_short_and_raise_no_warning() -> None:
    labels = ["\N{GRINNING FACE}", "a\nb", "x" * 10_000]
    with style():
        text = as_svg(confusion_plot(np.eye(3), labels)).decode()
        points = embedding_plot(np.eye(3), np.arange(3), labels, None)
        as_png(points)
    assert labels[0] in text
    assert "a b" in text
    assert f">{'x' * 17}…<" in text
    assert "x" * 31 not in as_svg(points).decode()


@pytest.mark.filterwarnings("error")
def test_png_files_use_installed_fonts_for_characters_that_the_first_font_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(as_png.__globals__, "CJK_FONTS", ("Not Installed", "STIXGeneral"))
    figure, axes = new_figure(2)
    axes.set_title("\N{COMBINING ENCLOSING CIRCLE}")
    as_png(figure)
    axes.set_title("\N{NAZAR AMULET}")
    with pytest.raises(UserWarning, match="missing from"):
        as_png(figure)


def test_many_classes_have_distinct_marks_and_a_short_legend() -> None:
    labels = ["_other", *map(str, range(149))]
    with style():
        figure = embedding_plot(np.eye(150), np.arange(150), labels, np.eye(150, 2))
        as_png(figure)
        ticks = confusion_plot(np.eye(150), labels).axes[0].get_xticklabels()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == labels[:20]
    assert len(figure.axes[0].collections) == 300
    assert legend.get_window_extent().y1 < figure.axes[0].get_window_extent().y0
    assert legend.get_window_extent().x0 > 0
    assert [label.get_text() for label in ticks] == labels[::5]


def test_36_classes_of_a_map_differ_in_color_or_marker() -> None:
    figure = embedding_plot(np.eye(36), np.arange(36), ["label"] * 36, None)
    found = figure.axes[0].collections
    looks = {(str(one.get_facecolor()), str(one.get_paths()[0].vertices)) for one in found}
    assert len(looks) == 36


def test_an_inline_figure_takes_colors_and_ids_of_the_page() -> None:
    with style():
        figure, axes = new_figure(2)
        axes.plot([0, 1], color="#0072b2", label="$x$ <b>")
        axes.legend()
        text = inline_svg(as_svg(figure), "one")
    assert text.startswith("<svg")
    assert "var(--series-0)" in text
    assert "currentColor" in text
    assert "#0072b2" not in text
    assert "$x$ &lt;b&gt;" in text
    assert 'id="one-axes_1"' in text
