"""Figures of the winner on the test rows, and of the comparison of several studies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import one_line
from sclsearch.reports.page.style import COLORS, INK, MARKERS, looks, new_figure
from sclsearch.selection.significance import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = npt.NDArray[np.float64]
MOST_WITH_NUMBERS = 10
"""Number of classes up to which the cells of a confusion matrix show their counts."""


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
    short = [one_line(label, 18) for label in labels]
    axes.set_xticks(range(len(labels)), short, rotation=0 if len(labels) <= 4 else 90)
    axes.set_yticks(range(len(labels)), short)
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
    """Return a t-SNE map of rows, `[rows, 2]`, by their class, and of label vectors, `[C, 2]`."""
    figure, axes = new_figure(4.2)
    labels = [one_line(label, 30) for label in labels]
    for number, (color, marker, _) in enumerate(looks(len(labels))):
        own = points[y == number]
        axes.scatter(
            own[:, 0], own[:, 1], s=14, c=color, marker=marker, alpha=0.65, lw=0,
            label=labels[number],
        )  # fmt: skip
        if vectors is not None:
            x, y_ = vectors[number]
            axes.scatter(
                x, y_, s=170, c=color, marker="*", edgecolors=INK, lw=1, zorder=5,
                label=f"label vector: {labels[number]}",
            )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set(xlabel="t-SNE 1 (no unit)", ylabel="t-SNE 2 (no unit)")
    figure.legend(loc="outside lower center", ncols=2 if len(labels) < 12 else 4)
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
