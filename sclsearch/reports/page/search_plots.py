"""Figures of the search: seeds of each configuration, and scores against hyperparameters."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import canonical, shown
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.page.style import COLORS, INK, looks, new_figure
from sclsearch.reports.terminal import seed_scores
from sclsearch.selection.rules import mean_std

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Mapping[str, Any]
MOST = 30
"""Number of configurations in a figure with one row per configuration, best first."""


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
    if parameter.get("type") in {"log", "float"}:
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
