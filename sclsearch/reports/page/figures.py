"""Figures of the page; equal data give equal SVG.

Colors are those of Okabe and Ito (2008), which people with color vision deficiency can tell apart.
Markers and line styles differ too, so that prints in grey stay readable.
"""

import logging
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import one_line, shown
from sclsearch.reports.report import ConfigurationLine

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Numbers = npt.NDArray[np.float64]

INK = "#40444b"
"""Color of text and axes."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
WIDTH = 4.8
"""Width of a figure in inches: text of 9 points stays readable on a phone."""
MOST_WITH_NUMBERS = 10
"""Number of classes up to which the cells of a confusion matrix show their counts."""
MOST_TICKS = 30
"""Most classes that the axes of a confusion matrix name; of more, they name every second or so."""
MOST_IN_LEGEND = 20
"""Number of classes in the legend of a map."""
_RC: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.18,
    "grid.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@contextmanager
def style() -> Iterator[None]:
    """Apply the style to all figures that the body makes or writes.

    Labels may have characters, such as emoji, that the fonts lack. SVG files keep them.
    """
    import matplotlib

    fonts = logging.getLogger("matplotlib.font_manager")
    level = fonts.level
    fonts.setLevel(logging.ERROR)  # or it warns of fonts without the weight `normal`
    try:
        with matplotlib.rc_context(_RC), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
            yield
    finally:
        fonts.setLevel(level)


def as_svg(figure: "Figure", name: str) -> str:
    """Return a figure as an SVG element; its ids begin with those of `name` and are unique."""
    import matplotlib

    content = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(content, format="svg", transparent=True, metadata=_NO_METADATA)
    text = content.getvalue().decode()
    return re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :])


def _new(height: float, rows: int = 1, **options: Any) -> "tuple[Figure, Any]":
    """Return a figure of a height in inches, with one plot or several rows of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, **options)


def as_number(value: str) -> float | None:
    """Return a value's number; None for a name."""
    try:
        return float(value)
    except ValueError:
        return None


def trend_plot(
    values: Sequence[str],
    lines: Mapping[str, Mapping[str, tuple[float, float | None]]],
    setting: str,
    scored: str,
) -> "Figure":
    """Return scores over a setting, with bands of ± the standard deviation; the last line is grey.

    The axis is logarithmic from a factor of 8 on; names have equal distances.
    """
    figure, axes = _new(3.4)
    numbers = [number for value in values if (number := as_number(value)) is not None]
    if len(numbers) < len(values):
        numbers = [float(place) for place in range(len(values))]
    elif 0 < 8 * numbers[0] <= numbers[-1]:
        axes.set_xscale("log")
    count = len(lines) - 1
    looks = [(COLORS[n % 6], MARKERS[n % 6], LINES[(n + n // 6) % 6]) for n in range(count)]
    for (name, scores), look in zip(lines.items(), [*looks, (INK, "", "--")], strict=True):
        pairs = zip(values, numbers, strict=True)
        own = [(number, *scores[value]) for value, number in pairs if value in scores]
        if own:
            color, marker, dashes = look
            at, mean, std = np.array(own, dtype=float).T
            low, high = mean - np.nan_to_num(std), mean + np.nan_to_num(std)
            axes.fill_between(at, low, high, color=color, alpha=0.15, lw=0)
            axes.plot(at, mean, color=color, marker=marker, ms=5, lw=1.6, ls=dashes, label=name)
    axes.set_xticks(numbers, values)
    axes.minorticks_off()
    axes.set(xlabel=setting, ylabel=f"{scored}, mean ± std")
    columns = 1 if sum(map(len, lines)) > 40 else 3  # more would leave the figure
    figure.legend(loc="outside lower center", ncols=columns)
    return figure


def curve_plot(rows: "pd.DataFrame", metric: str) -> "Figure":
    """Return a metric over epochs, one line per seed, with a ring at the kept evaluation."""
    figure, axes = _new(2.8)
    for _, own in rows.groupby("replicate"):
        axes.plot(own["epoch"], own["value"], color=COLORS[0], lw=1.2, alpha=0.6)
    kept = rows[rows["kept"]]
    axes.plot(kept["epoch"], kept["value"], "o", ms=5, mfc="none", color=COLORS[1])
    axes.set(xlabel="epoch", ylabel=f"validation {metric}")
    return figure


def score_plot(predictions: "pd.DataFrame") -> "Figure":
    """Return predicted over true scores of test rows and seeds, with the line of equality."""
    test = predictions[predictions["split"] == "test"].dropna(subset=["label"])
    true, predicted = (test[name].to_numpy(float) for name in ("label", "predicted"))
    figure, axes = _new(3.4)
    ends = [float(min(true.min(), predicted.min())), float(max(true.max(), predicted.max()))]
    axes.plot(ends, ends, color=INK, lw=1, ls="--")
    axes.plot(true, predicted, ls="", marker="o", ms=3, color=COLORS[0], alpha=0.4)
    axes.set(xlabel="true score", ylabel="predicted score")
    return figure


def hyperparameter_plot(
    lines: Sequence[ConfigurationLine], parameter: Mapping[str, Any], metric: str
) -> "Figure":
    """Return the validation scores of all seeds against one parameter of the search space."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    figure, axes = _new(2.5)
    name, choices = parameter["name"], parameter.get("values")
    if choices is not None:  # in their order, with equal distances
        axes.plot(list(map(shown, choices)), [np.nan] * len(choices))
    else:
        axes.axvspan(parameter["low"], parameter["high"], alpha=0)  # the whole searched range
    if parameter["type"] == "log":
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
    for line in lines:
        if name in line.values and line.validations:
            at = line.values[name] if choices is None else shown(line.values[name])
            scores = line.validations
            axes.plot([at] * len(scores), scores, "_", ms=7, color=COLORS[0], alpha=0.55)
            axes.plot([at], [np.mean(scores)], "o", ms=5, color=COLORS[0])
    axes.set(xlabel=name, ylabel=f"validation {metric}")
    return figure


def confusion_plot(confusions: Sequence[Numbers], labels: Sequence[str]) -> "Figure":
    """Return the mean of confusion matrices, colored by the share of each true class.

    True classes are in rows and predicted classes in columns, `[C, C]`.
    """
    counts = np.mean(confusions, axis=0)
    figure, axes = _new(min(4.8, 1.4 + 0.42 * len(labels)))
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    places = np.arange(len(labels))
    axes.pcolormesh(places, places, shares, cmap="Blues", vmin=0, vmax=1)
    axes.invert_yaxis()
    ticks = places[:: math.ceil(len(labels) / MOST_TICKS)]
    names = [one_line(labels[place], 18) for place in ticks]
    axes.set_xticks(ticks, names, rotation=0 if len(labels) <= 4 else 90)
    axes.set_yticks(ticks, names)
    axes.tick_params(labelsize=9 if len(ticks) <= 15 else 6)
    axes.set(xlabel="predicted class", ylabel="true class")
    axes.grid(visible=False)
    for (row, column), share in np.ndenumerate(shares if len(labels) <= MOST_WITH_NUMBERS else []):
        color, text = "white" if share > 0.6 else INK, f"{counts[row, column]:.1f}\n{share:.0%}"
        axes.text(column, row, text, color=color, ha="center", va="center", fontsize=8)
    return figure


def reliability_plot(bins: Sequence[tuple[float, float, int]]) -> "Figure":
    """Return a reliability diagram; bins have mean confidence, accuracy and number of rows."""
    confidence, accuracy, rows = (np.array(column) for column in zip(*bins, strict=True))
    figure, (axes, below) = _new(3.6, 2, sharex=True, height_ratios=(3, 1))
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
    figure, axes = _new(3.6 + 0.17 * math.ceil(len(named) / columns))
    handles = []
    for number in range(len(labels)):
        # Color and marker together differ for 36 classes.
        color, marker = COLORS[number % 6], MARKERS[(number + number // 6) % 6]
        own = points[y == number]
        handles.append(
            axes.scatter(own[:, 0], own[:, 1], s=14, c=color, marker=marker, alpha=0.65, lw=0)
        )
        if vectors is not None:
            star = {"marker": "*", "edgecolors": INK, "zorder": 5}
            axes.scatter(*vectors[number], s=170, c=color, lw=1, **star)
    axes.set(xticks=[], yticks=[], xlabel="t-SNE 1 (no unit)", ylabel="t-SNE 2 (no unit)")
    # Labels of artists that begin with "_" would be left out, those of a legend are not.
    figure.legend(handles[: len(named)], named, loc="outside lower center", ncols=columns)
    return figure
