"""Tests of the page's first screen on studies that differ in one setting."""

from pathlib import Path

import numpy as np
import pytest

import sclsearch
from sclsearch.reports.page.figures import trend_plot
from sclsearch.reports.page.results import read_results
from sclsearch.reports.page.trend import Trend, find_trend, summary_of_trend
from sclsearch.training.baselines import LOGISTIC, MAJORITY
from tests.made_up import WriteStudy

SCORES = {"20": (60, 50), "100": (70, 64), "1000": (80, 82)}


def scores(test: int) -> list[tuple[int, int]]:
    return [(test, test + n) for n in (-1, 0, 1)] if test != 60 else [(60, 60)] * 3


@pytest.fixture
def storage(write_study: WriteStudy, tmp_path: Path) -> Path:
    """Return the storage of `scl` and `ce` with 20, 100 and 1000 training examples."""
    for size, tests in SCORES.items():
        for method, test in zip(("scl", "ce"), tests, strict=True):
            write_study(
                scores(test),
                name=f"{method}-{size}",
                method=method,
                size=size,
                baselines={MAJORITY: 40, LOGISTIC: 75 if size == "100" else 55},
                rows={"train": size[:1] * 3, "test": "t"},
            )
    return tmp_path


def trend_of(storage: Path, *names: str) -> Trend | None:
    return find_trend(read_results([sclsearch.select(name, storage=storage) for name in names]))


NAMES = [f"{method}-{size}" for size in reversed(SCORES) for method in ("ce", "scl")]


def test_studies_of_several_sizes_give_a_sentence_a_table_and_a_figure(storage: Path) -> None:
    trend = trend_of(storage, *NAMES)
    assert trend is not None
    found = summary_of_trend(trend)
    assert found.answer == (
        "scl has the best test accuracy on average, 4.7 points above ce (higher at 2 of 3 values). "
        "A baseline does as well or better at 100."
    )
    assert found.certainty == (
        "Each point has at least 3 seeds; their scores spread by up to 1.0 points."
    )
    assert found.command == f"sclsearch confirm scl-1000 ce-1000 --storage {storage}"
    cells = trend.table().values.tolist()
    assert cells[0] == ["20", "0.6000 ± 0.0000", "0.5000 ± 0.0100", "0.5500"]
    assert [row[0] for row in cells] == [*SCORES]
    figure = trend_plot(trend.values, trend.scores(), "size", "test accuracy")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["scl", "ce", trend.baseline]
    figure.canvas.draw()
    legend = figure.legends[0].get_window_extent()
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.width
    assert trend.baseline == "best baseline: logistic regression on the frozen encoder"
    assert np.allclose(axes.lines[0].get_ydata(), [0.6, 0.7, 0.8])


def test_a_method_without_the_setting_is_a_constant_line(
    storage: Path, write_study: WriteStudy
) -> None:
    for tau, test in ((0.1, 70), (0.5, 66)):
        write_study(scores(test), name=f"tau-{tau}", settings={"tau": tau})
    write_study(scores(67), name="plain", method="ce")
    trend = trend_of(storage, "plain", "tau-0.5", "tau-0.1")
    assert trend is not None
    assert [(name, {*own}) for name, own in trend.lines.items()] == [
        ("scl", {"0.1", "0.5"}),
        ("ce", {"0.1", "0.5"}),
    ]
    assert [one.name for one in trend.named()] == ["scl at 0.1", "ce", "scl at 0.5"]


@pytest.mark.parametrize(
    "changes",
    [
        {"size": "500", "model": "bert-base"},  # two settings
        {"size": "100"},  # a second study of a value
        {"protocol": "plain"},  # no value
        {"size": "100", "method": "ce", "model": "bert-base"},  # another encoder
        {"size": "500", "method": "ce"},  # no shared value
        {"size": "100", "method": "ce", "rows": {"train": "xyz", "test": "u"}},  # other test rows
    ],
)
def test_studies_that_differ_otherwise_have_no_trend(
    storage: Path, write_study: WriteStudy, changes: dict[str, str]
) -> None:
    write_study(scores(70), name="other", **changes)
    assert trend_of(storage, "scl-20", "scl-100", "other") is None
