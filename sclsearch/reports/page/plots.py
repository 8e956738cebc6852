"""Content of the page: sections, tables, and figures, whose SVG has equal bytes for equal data.

Colors are those of Okabe and Ito (2008), which people with color vision deficiency can tell apart.
Markers and line styles differ too, so that prints in grey stay readable.
"""

import logging
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sclsearch.canonical import canonical, one_line, shown
from sclsearch.reports.differences import Difference
from sclsearch.reports.report import ConfigurationLine
from sclsearch.selection.rules import mean_std
from sclsearch.selection.significance import Comparison

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = npt.NDArray[np.float64]

INK = "#40444b"
"""Color of text and axes. The page replaces it by its own text color, light or dark."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
ON_DARK = ("#4aa8e0", "#ef7d3b", "#2cc295", "#e09cc0", "#f0b840", "#8fd0f5")
"""The same colors, brighter, for a dark page."""
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
WIDTH = 4.8
"""Width of a figure in inches: text of 9 points stays readable on a phone."""
FONT = "DejaVu Sans"
CJK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei"),
    *("Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS"),
)
"""Fonts for Chinese, Japanese and Korean labels in PNG files, in order, where installed."""
MOST = 30
"""Number of configurations in a figure with one row per configuration, best first."""
MOST_WITH_NUMBERS = 10
"""Number of classes up to which the cells of a confusion matrix show their counts."""
MOST_TICKS = 30
"""Most classes that the axes of a confusion matrix name; of more, they name every second or so."""
MOST_IN_LEGEND = 20
"""Number of classes in the legend of a map."""
_RC: Any = {
    "svg.hashsalt": "sclsearch",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": [FONT],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.18,
    "grid.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 200,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True, slots=True)
class Plot:
    """Figure with its caption, and its file name without a suffix."""

    name: str
    caption: str
    figure: "Figure"


@dataclass(frozen=True, slots=True)
class Table:
    """Text cells with a caption, a file name without a suffix, and the rows in bold."""

    name: str
    caption: str
    cells: "pd.DataFrame"
    bold: tuple[int, ...] = ()


@dataclass(slots=True)
class Section:
    """Section of the page: paragraphs, a list, shell commands, figures and tables.

    `name` is its unique anchor. Parts of the paragraphs in backquotes are code. A folded section
    opens by a click. `parts` are sections within it.
    """

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    parts: "list[Section]" = field(default_factory=list)
    folded: bool = False


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


def new_figure(height: float, rows: int = 1, **options: Any) -> "tuple[Figure, Any]":
    """Return a figure of a height in inches, with one plot or several rows of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, **options)


def looks(count: int) -> list[tuple[str, str, Any]]:
    """Return color, marker and line style of several series; after 36 they repeat."""
    six = len(COLORS)
    return [(COLORS[n % six], MARKERS[n % six], LINES[(n + n // six) % six]) for n in range(count)]


def as_svg(figure: "Figure") -> bytes:
    """Return the figure as an SVG file with a transparent background."""
    content = BytesIO()
    figure.savefig(content, format="svg", transparent=True, metadata=_NO_METADATA)
    return content.getvalue()


def as_png(figure: "Figure") -> bytes:
    """Return the figure as a PNG file with a white background."""
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    installed = fontManager.get_font_names()
    families = [FONT, *(name for name in CJK_FONTS if name in installed)]
    for text in figure.findobj(Text):
        text.set_fontfamily(families)
    content = BytesIO()
    figure.savefig(content, format="png", facecolor="white", metadata={"Software": None})
    return content.getvalue()


def inline_svg(content: bytes, name: str) -> str:
    """Return an SVG file as an HTML element in the colors of the page, light or dark.

    The page defines the colors of the series as `--series-0` and so on. `name` is the prefix of the
    element's ids, which must be unique on the page.
    """
    text = content.decode()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    for number, color in enumerate(COLORS):
        text = text.replace(color, f"var(--series-{number})")
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', text)[:2]
    size = f'width="{width}pt" height="{height}pt"'
    return text.replace(size, f'style="max-width: {1.55 * float(width):.0f}px"', 1)


def seed_plot(
    lines: Sequence[ConfigurationLine],
    baselines: Sequence[ConfigurationLine],
    split: str,
    metric: str,
) -> "Figure":
    """Return a dot plot of all seeds; baselines are vertical lines, far ones arrows at the edge."""
    lines = lines[:MOST]
    figure, axes = new_figure(1.0 + 0.24 * len(lines) + 0.2 * len(baselines))
    for row, line in enumerate(lines):
        scores = _scores(line, split)
        for filled, face in ((False, "none"), (True, COLORS[0])):
            dots = sorted(one for at, one in scores.items() if (at in line.reported) == filled)
            heights = [
                row + 0.13 * (place - dots.index(one) - (dots.count(one) - 1) / 2)
                for place, one in enumerate(dots)
            ]
            axes.plot(dots, heights, "o", ms=5, mfc=face, mec=COLORS[0], zorder=3)
        if scores:
            mean = mean_std(list(scores.values()))[0]
            axes.plot([mean, mean], [row - 0.3, row + 0.3], color=INK, lw=1.6, zorder=4)
    for line, (color, _, dashes) in zip(baselines, looks(len(baselines) + 1)[1:], strict=True):
        scores = _scores(line, split)
        if scores:
            mean = mean_std(list(scores.values()))[0]
            (low, high), label = axes.get_xlim(), f"baseline: {line.origin}, {mean:.4f}"
            if 2 * low - high <= mean <= 2 * high - low:
                axes.axvline(mean, color=color, ls=dashes, lw=1.3, label=label)
                continue
            edge, arrow = (0.0, "<") if mean < low else (1.0, ">")
            place = {"transform": axes.transAxes, "clip_on": False, "zorder": 5}
            axes.plot(edge, 0.5, arrow, color=color, label=f"{label}, off the axis", **place)
    axes.set_yticks(range(len(lines)), [f"#{line.number}" for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set(xlabel=f"{split} {metric}", ylabel="configuration")
    if baselines:
        figure.legend(loc="outside lower center", ncols=1)
    return figure


def _scores(line: ConfigurationLine, split: str) -> dict[int, float]:
    found = (getattr(seed, split) for seed in line.seeds)
    return {number: score for number, score in enumerate(found) if score is not None}


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
    labels: Sequence[str],
) -> "Figure":
    """Return scores over a setting, with bands of ± the standard deviation; the last line is grey.

    The axis is logarithmic from a factor of 8 on; names have equal distances.
    """
    from matplotlib.ticker import NullLocator

    figure, axes = new_figure(3.0)
    numbers = [number for value in values if (number := as_number(value)) is not None]
    if len(numbers) < len(values):
        numbers = [float(place) for place in range(len(values))]
    elif 0 < 8 * numbers[0] <= numbers[-1]:
        axes.set_xscale("log")
    styles = [*looks(len(lines) - 1), (INK, "", "--")]
    for (name, scores), (color, marker, dashes) in zip(lines.items(), styles, strict=True):
        own = [
            (number, *scores[v]) for v, number in zip(values, numbers, strict=True) if v in scores
        ]
        if own:
            at, mean, std = np.array(own, dtype=float).T
            low, high = mean - np.nan_to_num(std), mean + np.nan_to_num(std)
            axes.fill_between(at, low, high, color=color, alpha=0.15, lw=0)
            axes.plot(at, mean, color=color, marker=marker, ms=5, lw=1.6, ls=dashes, label=name)
    axes.set_xticks(numbers, labels)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel=setting, ylabel=f"{scored}, mean ± std")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def curve_plot(curves: "Sequence[pd.DataFrame]", metric: str) -> "Figure":
    """Return a metric over epochs, one line per seed, with a ring at the kept evaluation."""
    figure, axes = new_figure(2.8)
    for own in curves:
        axes.plot(own["epoch"], own["value"], color=COLORS[0], lw=1.2, alpha=0.6)
        kept = own[own["kept"]]
        axes.plot(
            kept["epoch"], kept["value"], ls="", marker="o", ms=5, mfc="none", color=COLORS[1]
        )
    axes.set(xlabel="epoch", ylabel=f"validation {metric}")
    return figure


def score_plot(true: Numbers, predicted: Numbers) -> "Figure":
    """Return predicted over true scores, one dot per row and seed, with the line of equality."""
    figure, axes = new_figure(3.4)
    ends = [float(min(true.min(), predicted.min())), float(max(true.max(), predicted.max()))]
    axes.plot(ends, ends, color=INK, lw=1, ls="--")
    axes.plot(true, predicted, ls="", marker="o", ms=3, color=COLORS[0], alpha=0.4)
    axes.set(xlabel="true score", ylabel="predicted score")
    return figure


def hyperparameter_plot(
    lines: Sequence[ConfigurationLine], name: str, parameter: Mapping[str, Any], metric: str
) -> "Figure":
    """Return the validation scores of all seeds against one parameter of the search space.

    Configurations without it are left out.
    """
    figure, axes = new_figure(2.5)
    having = [line for line in lines if name in line.values]
    position = _scale(axes, name, parameter, having)
    for line in having:
        scores, at = line.validations, position(line.values[name])
        axes.plot([at] * len(scores), scores, ls="", marker="_", ms=7, color=COLORS[0], alpha=0.55)
        if scores:
            axes.plot(at, line.partial, "o", ms=5, color=COLORS[0])
    axes.set_ylabel(f"validation {metric}")
    return figure


def _scale(
    axes: "Axes", name: str, parameter: Mapping[str, Any], lines: Sequence[ConfigurationLine]
) -> Any:
    """Set the horizontal axis for a hyperparameter; return the function from value to position."""
    axes.set_xlabel(name)
    if parameter.get("type") == "log":
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    if parameter.get("type") in {"log", "float"}:
        axes.axvspan(parameter["low"], parameter["high"], alpha=0)  # the whole searched range
        return float
    # The values of a choice by their JSON: those of the space, then any other.
    values = [*parameter.get("values", ()), *(line.values[name] for line in lines)]
    order = {canonical(value): value for value in values}
    axes.set_xticks(range(len(order)), [shown(value) for value in order.values()])
    axes.set_xlim(-0.5, len(order) - 0.5)
    places = {key: place for place, key in enumerate(order)}
    return lambda value: places[canonical(value)]


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
    """Return a reliability diagram; bins have mean confidence, accuracy and number of rows."""
    confidence, accuracy, rows = (np.array(column) for column in zip(*bins, strict=True))
    figure, (axes, below) = new_figure(3.6, 2, sharex=True, height_ratios=(3, 1))
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
    names: Sequence[str], comparisons: Sequence[Comparison | Difference], methods: int, metric: str
) -> "Figure":
    """Return differences from the best study with their 95 % intervals, one row each.

    `comparisons` are those of the best study with each other one. The first `methods` rows are
    studies, the others baselines.
    """
    figure, axes = new_figure(1.0 + 0.34 * len(names))
    for row, one in enumerate(comparisons):
        color, marker, _ = looks(2)[row >= methods]
        if one.interval is not None:
            ends = [100 * end for end in one.interval]
            axes.plot(ends, [row, row], color=color, lw=2.4, solid_capstyle="butt")
        axes.plot(100 * one.difference, row, marker=marker, ms=7, color=color)
    axes.axvline(0, color=INK, lw=1, ls="--")
    axes.set_yticks(range(len(names)), ["\n".join(wrap(name, 24)) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"test {metric} of the best minus that of the row, points")
    return figure
