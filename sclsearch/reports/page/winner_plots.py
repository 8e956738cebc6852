"""Figures of the winner on the test rows, and of the comparison of several studies."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import one_line
from sclsearch.reports.page.style import COLORS, INK, MARKERS, new_figure
from sclsearch.selection.significance import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = npt.NDArray[np.float64]
MOST_WITH_NUMBERS = 10
"""Number of classes up to which the cells of a confusion matrix show their counts."""
MOST_TICKS = 30
"""Most classes that the axes of a confusion matrix name; of more, they name every second or so."""
MOST_IN_LEGEND = 20
"""Number of classes in the legend of a map."""


def confusion_plot(counts: Numbers, labels: Sequence[str]) -> "Figure":
    """Return a confusion matrix, colored by the share of each true class.

    `counts` has true classes in rows and predicted classes in columns, `[C, C]`.
    """
    from matplotlib import colormaps

    figure, axes = new_figure(min(4.8, 1.9 + 0.42 * len(labels)))
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    # Few colors keep the color bar a vector graphic.
    blues = colormaps["Blues"].resampled(10)
    places = np.arange(len(labels))
    cells = axes.pcolormesh(places, places, shares, cmap=blues, vmin=0, vmax=1)
    axes.invert_yaxis()
    figure.colorbar(cells, ax=axes, label="share of the true class")
    ticks = places[:: math.ceil(len(labels) / MOST_TICKS)]
    names = [one_line(labels[place], 18) for place in ticks]
    axes.set_xticks(ticks, names, rotation=0 if len(labels) <= 4 else 90)
    axes.set_yticks(ticks, names)
    axes.tick_params(labelsize=9 if len(ticks) <= 15 else 6)
    axes.set(xlabel="predicted class", ylabel="true class")
    axes.grid(visible=False)
    if len(labels) <= MOST_WITH_NUMBERS:
        for (row, column), share in np.ndenumerate(shares):
            color = "white" if share > 0.6 else "#1a1a1a"
            text = f"{counts[row, column]:.1f}\n{share:.0%}"
            axes.text(column, row, text, color=color, ha="center", va="center", fontsize=8)
    return figure


def reliability_plot(bins: Sequence[tuple[float, float, int]]) -> "Figure":
    """Return a reliability diagram: accuracy against confidence, with the rows of each bin below.

    Each bin has its mean confidence, its accuracy and its number of rows.
    """
    from matplotlib.figure import Figure

    confidence, accuracy, rows = (np.array(column) for column in zip(*bins, strict=True))
    figure = Figure(figsize=(4.8, 3.6), layout="constrained")
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    axes.plot([0, 1], [0, 1], color=INK, ls="--", lw=1, label="perfect calibration")
    axes.plot(confidence, accuracy, color=COLORS[0], marker="o", ms=5, lw=1.4, label="winner")
    axes.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
    axes.legend(loc="upper left")
    below.bar(confidence, rows, width=0.04, color=COLORS[0])
    below.set(xlabel="confidence (probability of the predicted class)", ylabel="rows")
    return figure


def embedding_plot(
    points: Numbers, y: npt.NDArray[np.int64], labels: Sequence[str], vectors: Numbers | None
) -> "Figure":
    """Return a t-SNE map of rows, `[rows, 2]`, by their class, and of label vectors, `[C, 2]`.

    The legend has the first `MOST_IN_LEGEND` classes.
    """
    named = [one_line(label, 30) for label in labels[:MOST_IN_LEGEND]]
    columns = 1 if max(map(len, named)) > 22 else 2
    figure, axes = new_figure(3.6 + 0.17 * math.ceil(len(named) / columns))
    handles = []
    for number in range(len(labels)):
        # Color and marker together differ for 36 classes; those of `looks` go in step.
        color, marker = COLORS[number % 6], MARKERS[(number + number // 6) % 6]
        own = points[y == number]
        handles.append(
            axes.scatter(own[:, 0], own[:, 1], s=14, c=color, marker=marker, alpha=0.65, lw=0)
        )
        if vectors is not None:
            x, y_ = vectors[number]
            axes.scatter(x, y_, s=170, c=color, marker="*", edgecolors=INK, lw=1, zorder=5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set(xlabel="t-SNE 1 (no unit)", ylabel="t-SNE 2 (no unit)")
    # Labels of artists that begin with "_" would be left out, those of a legend are not.
    figure.legend(handles[: len(named)], named, loc="outside lower center", ncols=columns)
    return figure


def forest_plot(
    names: Sequence[str],
    comparisons: Sequence[Comparison],
    searches: Sequence[tuple[float, float] | None],
    metric: str,
) -> "Figure":
    """Return differences from the first study with their 95 % intervals, one row per study.

    Thin lines are the intervals `searches`, which include the search.
    """
    figure, axes = new_figure(1.0 + 0.34 * len(names))
    for row, (one, search) in enumerate(zip(comparisons, searches, strict=True)):
        for interval, width in ((search, 0.9), (one.interval, 2.4)):
            if interval is not None:
                ends = [100 * end for end in interval]
                axes.plot(ends, [row, row], color=COLORS[0], lw=width)
        marker = MARKERS[row % len(MARKERS)]
        axes.plot(100 * one.difference, row, marker=marker, ms=7, color=COLORS[0])
    axes.axvline(0, color=INK, lw=1, ls="--")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"difference of the test {metric} from the first study, points")
    return figure
