"""Figures of the search: seeds of each configuration, hyperparameters, progress and curves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sclsearch.canonical import canonical, shown
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.page.style import COLORS, INK, looks, new_figure, score_colors
from sclsearch.reports.terminal import seed_scores
from sclsearch.selection.rules import mean_std

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Mapping[str, Any]
MOST = 30
"""Number of configurations in a figure with one row per configuration, best first."""
NUMERIC = frozenset({"log", "float", "int"})
MOST_SEEDS = 10
"""Number of lines above which a figure has no legend."""


def seed_plot(
    lines: Sequence[ConfigurationLine],
    baselines: Sequence[ConfigurationLine],
    split: str,
    metric: str,
) -> "Figure":
    """Return a dot plot with the scores of all seeds on a split; baselines are vertical lines."""
    lines = lines[:MOST]
    figure, axes = new_figure(1.0 + 0.24 * len(lines) + 0.2 * len(baselines))
    for row, line in enumerate(lines):
        scores = _scores(line, split)
        for filled, face in ((False, "none"), (True, COLORS[0])):
            dots = [one for place, one in scores.items() if (place in line.reported) == filled]
            axes.plot(dots, [row] * len(dots), "o", ms=5, mfc=face, mec=COLORS[0], zorder=3)
        if scores:
            mean = mean_std(list(scores.values()))[0]
            axes.plot([mean, mean], [row - 0.3, row + 0.3], color=INK, lw=1.6, zorder=4)
    for line, (color, _, dashes) in zip(baselines, looks(len(baselines) + 1)[1:], strict=True):
        scores = _scores(line, split)
        if scores:
            mean = mean_std(list(scores.values()))[0]
            axes.axvline(mean, color=color, ls=dashes, lw=1.3, label=f"baseline: {line.origin}")
    axes.set_yticks(range(len(lines)), [f"#{line.number}" for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set(xlabel=f"{split} {metric}", ylabel="configuration")
    if baselines:
        figure.legend(loc="outside lower center", ncols=1)
    return figure


def _scores(line: ConfigurationLine, split: str) -> dict[int, float]:
    """Return the scores of the seeds that did not fail, by their position in the line."""
    found = (seed.validation if split == "validation" else seed.test for seed in line.seeds)
    return {number: score for number, score in enumerate(found) if score is not None}


def curve_plots(curves: "pd.DataFrame", metric: str) -> "dict[str, Figure]":
    """Return the learning curves of one configuration, with one line per seed.

    There is a figure for the validation metric and for each loss term, by its name, for example
    `validation accuracy` or `loss ce, stage final`.
    """
    shown_names = curves["name"].str.startswith("loss.") | (
        curves["name"] == f"validation.{metric}"
    )
    figures = {}
    for (stage, name), part in curves[shown_names].groupby(["stage", "name"], sort=False):
        kind, _, what = str(name).partition(".")
        title = f"{kind} {what}" + ("" if kind == "validation" else f", stage {stage}")
        figures[title] = _curve_plot(part, f"{kind} {what}")
    return dict(sorted(figures.items(), key=lambda item: not item[0].startswith("validation")))


def _curve_plot(part: "pd.DataFrame", label: str) -> "Figure":
    figure, axes = new_figure(2.5)
    seeds = list(part.groupby("replicate"))
    for (replicate, own), (color, marker, dashes) in zip(seeds, looks(len(seeds)), strict=True):
        axes.plot(
            own["step"], own["value"], color=color, ls=dashes, lw=1.3, label=f"seed {replicate}"
        )
        kept = own[own["kept"]]
        axes.plot(kept["step"], kept["value"], ls="", marker=marker, ms=5, color=color)
    axes.set(xlabel="updates", ylabel=label)
    if len(seeds) <= MOST_SEEDS:
        axes.legend(ncols=2)
    return figure


def hyperparameter_plot(
    lines: Sequence[ConfigurationLine], name: str, parameter: Values, metric: str
) -> "Figure":
    """Return the validation scores of all seeds against one searched hyperparameter.

    `parameter` is its entry in the stored search space. Configurations without the hyperparameter
    are left out.
    """
    figure, axes = new_figure(2.5)
    having = [line for line in lines if name in line.values]
    position = _scale(axes, name, parameter, having)
    for line in having:
        scores = seed_scores(line)
        at = position(line.values[name])
        axes.plot([at] * len(scores), scores, ls="", marker="_", ms=7, color=COLORS[0], alpha=0.55)
        if scores:
            axes.plot(at, mean_std(scores)[0], "o", ms=5, color=COLORS[0])
    axes.set_ylabel(f"validation {metric}")
    return figure


def _scale(axes: "Axes", name: str, parameter: Values, lines: Sequence[ConfigurationLine]) -> Any:
    """Set the horizontal axis for a hyperparameter; return the function from value to position."""
    axes.set_xlabel(name)
    if parameter.get("type") == "log":
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    if parameter.get("type") in NUMERIC:
        axes.axvspan(parameter["low"], parameter["high"], alpha=0)  # the whole searched range
        return float
    order = _choices(parameter, name, lines)
    axes.set_xticks(range(len(order)), [shown(value) for value in order.values()])
    axes.set_xlim(-0.5, len(order) - 0.5)
    places = {key: place for place, key in enumerate(order)}
    return lambda value: places[canonical(value)]


def _choices(parameter: Values, name: str, lines: Sequence[ConfigurationLine]) -> dict[str, object]:
    """Return the values of a choice by their JSON: those of the space, then any other."""
    values = [*parameter.get("values", ()), *(line.values[name] for line in lines)]
    return {canonical(value): value for value in values}


def parallel_plot(
    lines: Sequence[ConfigurationLine], parameters: Mapping[str, Values], metric: str
) -> "Figure":
    """Return parallel coordinates: one line per finished configuration, colored by its score.

    A line is interrupted at a hyperparameter that its configuration does not have.
    """
    names = [*parameters, f"score\n({metric})"]
    figure, axes = new_figure(3.0, width=max(4.8, 1.05 * len(names)))
    columns = []
    for place, (name, parameter) in enumerate(parameters.items()):
        column, ticks = _column(name, parameter, lines)
        columns.append(column)
        _ticks(axes, place, ticks)
    scores = np.array([line.score for line in lines], float)
    low, high = float(scores.min()), float(scores.max())
    columns.append(_unit(scores, low, high))
    _ticks(axes, len(columns) - 1, [(0.0, f"{low:.3f}"), (1.0, f"{high:.3f}")])
    colors = score_colors()
    for number, heights in reversed(list(enumerate(zip(*columns, strict=True)))):
        width = 1.1 if number else 2.8
        axes.plot(heights, "o-", color=colors(heights[-1]), lw=width, ms=3)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.15, len(names) - 0.6)
    axes.set_ylim(-0.06, 1.06)
    axes.set_yticks([])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    return figure


def _column(
    name: str, parameter: Values, lines: Sequence[ConfigurationLine]
) -> tuple[Any, list[tuple[float, str]]]:
    """Return the height of each configuration on one axis, `[lines]`, and the labels there."""
    having = [line for line in lines if name in line.values]
    if parameter.get("type") not in NUMERIC:
        order = _choices(parameter, name, having)
        steps = np.linspace(0, 1, len(order)) if len(order) > 1 else np.array([0.5])
        places = dict(zip(order, steps, strict=True))
        heights = [
            places[canonical(line.values[name])] if name in line.values else np.nan
            for line in lines
        ]
        ticks = [(float(places[key]), shown(value)) for key, value in order.items()]
        return np.array(heights), ticks
    values = np.array([line.values.get(name, np.nan) for line in lines], float)
    ends = [float(parameter["low"]), float(parameter["high"])]
    ends = [np.nanmin([ends[0], *values]), np.nanmax([ends[1], *values])]
    by = np.log if parameter["type"] == "log" else np.asarray
    heights = _unit(by(values), float(by(ends[0])), float(by(ends[1])))
    return heights, [(0.0, shown(float(ends[0]))), (1.0, shown(float(ends[1])))]


def _unit(values: Any, low: float, high: float) -> Any:
    return (values - low) / (high - low) if high > low else np.full(len(values), 0.5)


def _ticks(axes: "Axes", place: int, ticks: Sequence[tuple[float, str]]) -> None:
    axes.axvline(place, color=INK, lw=0.8)
    for height, label in ticks:
        axes.text(place + 0.06, height, label, fontsize=7, va="center", zorder=5)


def importance_plot(importance: Mapping[str, float]) -> "Figure":
    """Return bars with the importance of each hyperparameter, largest first."""
    figure, axes = new_figure(0.8 + 0.26 * len(importance))
    ordered = sorted(importance.items(), key=lambda item: item[1])
    names, shares = [name for name, _ in ordered], [share for _, share in ordered]
    bars = axes.barh(names, shares, color=COLORS[0], height=0.6)
    axes.bar_label(bars, fmt="{:.2f}", padding=3, fontsize=8)
    axes.set_xlim(0, 1.12 * max(*shares, 0.1))
    axes.set_xlabel("share of the explained variance")
    axes.grid(visible=False, axis="y")
    return figure


def progress_plot(
    best: Sequence[tuple[float, float]], last: float, label: str, metric: str
) -> "Figure":
    """Return the best score so far as steps.

    `best` has a position and a score for each finished configuration; `last` is the end of the
    search on the same axis.
    """
    figure, axes = new_figure(2.5)
    at = [place for place, _ in best]
    scores = [score for _, score in best]
    axes.step([*at, last], [*scores, scores[-1]], where="post", color=COLORS[0], lw=1.8)
    axes.plot(at, scores, "o", ms=4, color=COLORS[0])
    axes.set_xlim(left=0)
    axes.set(xlabel=label, ylabel=f"best score so far\n({metric})")
    return figure
