"""First screen of the page on studies that differ in one setting: the score over that setting."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from sclsearch.canonical import counted, shown
from sclsearch.reports.commands import study_command
from sclsearch.reports.comparison_tables import points, text_frame
from sclsearch.reports.page import plots
from sclsearch.reports.page.plots import Plot, Table
from sclsearch.reports.page.sections import Answer, StudyResults
from sclsearch.reports.report import ConfigurationLine, Report, Split, paired
from sclsearch.reports.summary import Summary
from sclsearch.reports.terminal import with_spread
from sclsearch.selection.rules import mean_std
from sclsearch.selection.significance import Comparison

Score = tuple[float, float | None]
NUMBERED: Mapping[str, str] = MappingProxyType(
    {"lacon-imbalance": "imbalance of the training rows", "lacon-classes": "number of classes"}
)
"""Meaning of the number at the end of a protocol's name."""
SIZE = "number of training examples"


@dataclass(frozen=True)
class Trend:
    """Studies by value of the one setting in which they differ, then by method.

    A method with one study that lacks the setting has this study at every value.
    """

    setting: str
    studies: Mapping[str, Mapping[str, StudyResults]]

    @cached_property
    def named(self) -> list[StudyResults]:
        """The studies with method and value as their names."""
        values: dict[str, tuple[StudyResults, list[str]]] = {}
        for value, methods in self.studies.items():
            for one in methods.values():
                values.setdefault(one.report.study, (one, []))[1].append(value)
        return [
            replace(one, name=f"{one.report.method} at {found[0]}" if len(found) == 1 else one.name)
            for one, found in values.values()
        ]

    @property
    def first(self) -> Report:
        return self.named[0].report

    @property
    def tested(self) -> bool:
        return all(one.report.has_test for one in self.named)

    def score(self, line: ConfigurationLine) -> Score | None:
        """Return mean and standard deviation over all seeds; without test rows of validation."""
        if self.tested:
            return line.plain
        return mean_std(line.validations) if line.validations else None

    @cached_property
    def methods(self) -> dict[str, dict[str, Score]]:
        """Scores by method, best mean over the shared values first, and by value."""
        found: dict[str, dict[str, Score]] = {}
        for value, methods in self.studies.items():
            for method, one in methods.items():
                if score := self.score(one.winner):
                    found.setdefault(method, {})[value] = score
        shared = [value for value in self.studies if all(value in own for own in found.values())]
        means = {name: sum(own[value][0] for value in shared) for name, own in found.items()}
        return {name: found[name] for name in sorted(found, key=lambda name: -means[name])}

    @property
    def baselines(self) -> dict[str, tuple[float, str]]:
        """Score and name of the best baseline, by value."""
        found = {
            value: [
                (score[0], line.origin)
                for one in methods.values()
                for line in one.report.baselines
                if (score := self.score(line))
            ]
            for value, methods in self.studies.items()
        }
        return {value: max(scores) for value, scores in found.items() if scores}

    def differences(self, method: str, other: str) -> dict[str, Comparison]:
        """Return the paired comparison of two methods, by value."""
        found = {}
        for value, methods in self.studies.items():
            if method in methods and other in methods:
                own, its = methods[method], methods[other]
                subsets = {number: one["train"] for number, one in enumerate(own.report.rows)}
                split: Split = "test" if self.tested else "validation"
                one = paired(own.winner, its.winner, subsets, own.report.metric, split)
                if one is not None:
                    found[value] = one
        return found


def find_trend(found: Sequence[StudyResults]) -> Trend | None:
    """Return the trend of studies that differ in one setting besides the method; None if none.

    At each value the methods have the same data, metric and test rows.
    """
    methods: dict[str, list[StudyResults]] = {}
    for one in found:
        methods.setdefault(one.report.method, []).append(one)
    differing = {
        name
        for own in methods.values()
        for name in {name for one in own for name in _settings(one.report)}
        if len({_settings(one.report).get(name) for one in own}) > 1
    }
    if len(differing) > 1 and SIZE in differing:
        differing.discard("protocol")  # a paper's protocol of few rows differs from that of all
    if len(differing) != 1 or differing == {"protocol"}:
        return None
    (setting,) = differing
    studies = _by_value(setting, methods)
    same = all(len({_inputs(one.report) for one in own.values()}) == 1 for own in studies.values())
    return Trend(setting, studies) if studies and same else None


def _by_value(
    setting: str, methods: Mapping[str, Sequence[StudyResults]]
) -> dict[str, dict[str, StudyResults]]:
    """Return the studies by value and method; none if a study has no place of its own."""
    studies: dict[str, dict[str, StudyResults]] = {}
    constant = {}
    for method, own in methods.items():
        for one in own:
            value = _settings(one.report).get(setting)
            if value is None and len(own) == 1:
                constant[method] = one
            elif value is None or method in studies.setdefault(value, {}):
                return {}
            else:
                studies[value][method] = one
    return {value: {**studies[value], **constant} for value in sorted(studies, key=_order)}


def _settings(one: Report) -> dict[str, str]:
    origin, identity = one.record.origin, one.record.identity
    protocol, _, number = str(origin.get("protocol") or one.protocol).partition(":")
    size, per_class = re.subn("-per-class$", "", one.size or "all")
    paraphrases = origin.get("paraphrases")
    named = {
        "protocol": protocol,
        NUMBERED.get(protocol, "number of the protocol"): number or None,
        f"{SIZE} per class" if per_class else SIZE: size,
        "number of unlabeled texts": identity.get("unlabeled"),
        "file of paraphrases": Path(paraphrases).name if paraphrases else None,
        "encoder": one.model,
        **one.settings,
    }
    return {name: shown(value) for name, value in named.items() if value is not None}


def _inputs(one: Report) -> tuple[str, ...]:
    return one.task, one.metric, one.data, *(rows.get("test", "") for rows in one.rows)


def _order(value: str) -> tuple[float, str]:
    number = plots.as_number(value)
    return (math.inf, value) if number is None else (number, "")


def answer(trend: Trend) -> Answer:
    """Return the first screen of the page on a trend."""
    first, names = trend.first, [*trend.methods]
    split = "test" if trend.tested else "validation"
    scored = f"{split} {first.metric}"
    question = f"How does the {scored} on {first.task} depend on the {trend.setting}?"
    certainty = " ".join(_certainty(trend, names))
    summary = Summary(_answer(trend, names, scored), certainty, *_next(trend, names))
    baselines = trend.baselines
    pairs = trend.differences(*names) if len(names) == 2 else {}
    rows = []
    for value in trend.studies:
        cells = [
            with_spread(*own[value]) if value in own else "–" for own in trend.methods.values()
        ]
        if pairs:
            one = pairs.get(value)
            cells += [f"{100 * one.difference:+.1f}", points(one.interval)] if one else ["–", ""]
        if baselines:
            cells.append(f"{baselines[value][0]:.4f}" if value in baselines else "–")
        rows.append([value, *cells])
    compared = ["difference", "95 %"] if pairs else []
    header = (
        trend.setting.removeprefix("number of "),
        *names,
        *compared,
        *["best baseline"] * bool(baselines),
    )
    caption = f"{scored.capitalize()} of winners, mean ± sample standard deviation over all seeds."
    if pairs:
        caption += f" Difference: {names[0]} minus {names[1]}, paired, in points."
    if baselines:
        caption += f" Baseline: {' or '.join(sorted({name for _, name in baselines.values()}))}."
    table = Table("answer", caption, text_frame(rows, header))
    return Answer(question, summary, table, _plot(trend, scored))


def _plot(trend: Trend, scored: str) -> Plot:
    figure = plots.trend_plot(
        [*trend.studies],
        trend.methods,
        {value: score for value, (score, _) in trend.baselines.items()},
        trend.setting,
        scored,
    )
    caption = f"Mean {scored} of each winner over its seeds; the band is ± the standard deviation."
    if trend.baselines:
        caption += " Dashed: the best baseline at each value."
    return Plot("trend", caption, figure)


def _answer(trend: Trend, names: Sequence[str], scored: str) -> str:
    if len(names) == 1:
        scores = {value: score[0] for value, score in trend.methods[names[0]].items()}
        best, worst = max(scores, key=scores.__getitem__), min(scores, key=scores.__getitem__)
        return (
            f"The {scored} of {names[0]} is highest at {best}, {scores[best]:.4f}, and lowest at "
            f"{worst}, {scores[worst]:.4f}, over the {trend.setting}."
        )
    parts = [_above(trend.differences(names[0], other), other) for other in names[1:]]
    return f"{names[0]} has the best {scored} on average: it is {'; it is '.join(parts)}."


def _above(pairs: Mapping[str, Comparison], other: str) -> str:
    differences = {value: one.difference for value, one in pairs.items()}
    below = [value for value, difference in differences.items() if difference <= 0]
    of = f"all {len(pairs)}" if not below else f"{len(pairs) - len(below)} of {len(pairs)}"
    mean = 100 * sum(differences.values()) / max(len(pairs), 1)
    but = f" (not at {', '.join(below)})" if below else ""
    return f"above {other} at {of} values{but}, by {mean:.1f} points on average"


def _certainty(trend: Trend, names: Sequence[str]) -> Iterator[str]:
    if len(names) > 1:
        pairs = trend.differences(*names[:2])
        sure = sum(one.interval is not None and one.interval[0] > 0 for one in pairs.values())
        lead = f"{names[0]} - {names[1]}"
        yield f"The 95 % interval of {lead} is above 0 at {sure} of {len(pairs)} values."
    scores = [score for own in trend.methods.values() for score in own.values()]
    spread = max((std or 0.0 for _, std in scores), default=0.0)
    fewest, most = (f(one.report.seeds for one in trend.named) for f in (min, max))
    seeds = counted(most, "seed") if fewest == most else f"{fewest} to {most} seeds"
    yield f"Each point has {seeds}, whose scores spread by up to {100 * spread:.1f} points."
    if len({_inputs(one.report) for one in trend.named}) > 1:
        yield "The test rows differ between values."


def _next(trend: Trend, names: Sequence[str]) -> tuple[str, str]:
    if any(one.report.repeats for one in trend.named):
        return "", ""
    if len(names) == 1:
        scores = trend.methods[names[0]]
        value, why = max(scores, key=lambda value: scores[value]), "measure the best value"
    else:
        pairs = trend.differences(*names[:2])
        value = max(pairs, key=lambda value: abs(pairs[value].difference))
        why = f"measure the largest difference, at {value},"
    reports = [trend.studies[value][name].report for name in names if name in trend.studies[value]]
    return f"{why} on new seeds, which chose no winner:", study_command("confirm", *reports)
