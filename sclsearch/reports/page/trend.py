"""Scores of studies over the one setting in which they differ."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.canonical import counted, shown
from sclsearch.errors import SclsearchError
from sclsearch.reports.commands import study_command
from sclsearch.reports.comparison import compare_studies
from sclsearch.reports.comparison_tables import text_frame
from sclsearch.reports.encoder_costs import costs_in_words
from sclsearch.reports.page.figures import as_number, trend_plot
from sclsearch.reports.page.results import StudyResults
from sclsearch.reports.report import Report
from sclsearch.reports.summary import Summary
from sclsearch.reports.words import with_spread
from sclsearch.selection.significance import Comparison

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NUMBERED = {"lacon-imbalance": "imbalance of the classes", "lacon-classes": "number of classes"}
"""Meaning of the number at the end of a protocol's name."""
SIZE = "number of training examples"
BASELINE = "best baseline"


@dataclass(frozen=True, slots=True)
class Trend:
    """Studies by method and by value of the one setting in which they differ.

    The method with the best mean is first. A method without the setting has one study for all.
    """

    setting: str
    values: Sequence[str]
    lines: Mapping[str, Mapping[str, StudyResults]]

    def named(self) -> list[StudyResults]:
        """Return the studies by value, with method and value as their names."""
        found: dict[str, StudyResults] = {}
        for value in self.values:
            for method, line in self.lines.items():
                if (one := line.get(value)) is not None:
                    before = found.get(one.report.study)
                    name = f"{method} at {value}" if before is None else method
                    found[one.report.study] = replace(one, name=name)
        return [*found.values()]

    def differences(self, method: str, other: str) -> dict[str, Comparison]:
        """Return the paired comparison of two methods, by value."""
        found: dict[str, Comparison] = {}
        own, its = self.lines[method], self.lines[other]
        for value in (value for value in self.values if value in own and value in its):
            with suppress(SclsearchError):  # no seed finished in both
                pair = compare_studies([own[value].report, its[value].report]).pairs[0]
                ahead = pair.better == own[value].report.study
                found[value] = pair.comparison if ahead else pair.comparison.reversed()
        return found

    @property
    def scored(self) -> str:
        return f"test {self.named()[0].report.metric}"

    @property
    def question(self) -> str:
        task = self.named()[0].report.task
        return f"How does the {self.scored} on {task} depend on the {self.setting}?"

    def scores(self) -> dict[str, dict[str, tuple[float, float | None]]]:
        """Return mean and standard deviation of each method, then of the best baseline."""
        found = {
            name: {value: _score(one) for value, one in line.items()}
            for name, line in self.lines.items()
        }
        found[BASELINE] = {value: (score, None) for value, (score, _) in self.baselines().items()}
        return found

    def table(self) -> "pd.DataFrame":
        """Return one row per value of the setting, and one column per method."""
        columns = {name: own for name, own in self.scores().items() if own}
        rows = [
            (
                value,
                *(with_spread(*own[value]) if value in own else "–" for own in columns.values()),
            )
            for value in self.values
        ]
        return text_frame(rows, (self.setting.removeprefix("number of "), *columns))

    def figure(self) -> "Figure":
        """Return the scores over the setting; encoders have their size and speed."""
        labels = self.values
        if self.setting == "encoder":
            of_value = {value: one for line in self.lines.values() for value, one in line.items()}
            costs = {value: costs_in_words(one.report) for value, one in of_value.items()}
            labels = [f"{Path(value).name}\n{costs[value]}" for value in labels]
        return trend_plot(self.values, self.scores(), self.setting, self.scored, labels)

    def baselines(self) -> dict[str, tuple[float, str]]:
        """Return score and name of the best baseline, by value."""
        found: dict[str, tuple[float, str]] = {}
        for line in self.lines.values():
            for value, one in line.items():
                for base in one.report.baselines:
                    if base.plain:
                        score = base.plain[0], base.origin
                        found[value] = max(score, found.get(value, score))
        return found


def find_trend(found: Sequence[StudyResults]) -> Trend | None:
    """Return the trend of tested studies that differ in one setting besides the method, or None.

    At each value the methods have the same data, metric and test rows.
    """
    known = {one.report.study: _settings(one.report) for one in found}
    lines: dict[str, list[StudyResults]] = {}
    for one in found:
        lines.setdefault(one.report.method, []).append(one)
    differing = {
        name
        for own in lines.values()
        for name in {name for one in own for name in known[one.report.study]}
        if len({known[one.report.study].get(name) for one in own}) > 1
    }
    if SIZE in differing:
        differing.discard("protocol")  # a paper's protocol of few rows differs from that of all
    # Another encoder would count as a difference of the methods.
    differing |= {"encoder"} if len({one.report.model for one in found}) > 1 else set()
    if len(differing) != 1 or not all(one.report.has_test for one in found):
        return None
    (setting,) = differing
    placed = {
        method: {known[one.report.study].get(setting, ""): one for one in own}
        for method, own in lines.items()
    }
    values = sorted({value for line in placed.values() for value in line} - {""}, key=_order)
    twice = any(len(placed[method]) < len(own) for method, own in lines.items())
    for line in placed.values():
        if len(line) == 1 and "" in line:
            line.update(dict.fromkeys(values, line.pop("")))
    inputs = [{_inputs(line[v].report) for line in placed.values() if v in line} for v in values]
    missing = any("" in line for line in placed.values())
    shared = [value for value in values if all(value in line for line in placed.values())]
    compared = setting != "protocol" and shared and all(len(one) == 1 for one in inputs)
    if twice or missing or not compared:
        return None
    ranked = sorted(placed, key=lambda name: -sum(_score(placed[name][v])[0] for v in shared))
    return Trend(setting, values, {name: placed[name] for name in ranked})


def _settings(one: Report) -> dict[str, str]:
    origin = one.record.origin
    protocol, _, number = str(origin.get("protocol") or one.protocol).partition(":")
    size, per_class = re.subn("-per-class$", "", one.size or "all")
    paraphrases = origin.get("paraphrases")
    named = {
        "protocol": protocol,
        NUMBERED.get(protocol, "number of the protocol"): number or None,
        f"{SIZE} per class" if per_class else SIZE: size,
        "number of unlabeled texts": one.record.identity.get("unlabeled"),
        "file of paraphrases": Path(paraphrases).name if paraphrases else None,
        "encoder": one.model,
        **one.settings,
    }
    return {name: shown(value) for name, value in named.items() if value is not None}


def _inputs(one: Report) -> tuple[str, ...]:
    return one.task, one.metric, one.data, one.rows[0]["test"]


def _order(value: str) -> tuple[float, str]:
    number = as_number(value)
    return (math.inf, value) if number is None else (number, "")


def _score(one: StudyResults) -> tuple[float, float | None]:
    return one.winner.plain or (math.nan, None)


def summary_of_trend(trend: Trend) -> Summary:
    """Return what the scores over the setting say."""
    best, *others = trend.lines
    scored = trend.scored
    scores = {value: _score(one)[0] for value, one in trend.lines[best].items()}
    at, low = max(scores, key=scores.__getitem__), min(scores, key=scores.__getitem__)
    text = f"The {scored} of {best} is highest at {at}, {scores[at]:.4f}, and lowest at {low}"
    text, why = f"{text}, {scores[low]:.4f}.", "the best value"
    if others:
        parts = [_above(trend.differences(best, other), other) for other in others]
        text = f"{best} has the best {scored} on average: it is {'; it is '.join(parts)}."
        pairs = trend.differences(best, others[0])
        at = max(pairs, key=lambda value: abs(pairs[value].difference), default=at)
        why = f"the largest difference, at {at},"
    baselines = {value: score for value, (score, _) in trend.baselines().items() if value in scores}
    if below := [value for value, score in baselines.items() if score >= scores[value]]:
        text += f" A baseline does as well or better at {', '.join(below)}."
    certainty = " ".join(_certainty(trend))
    if any(one.report.repeats for one in trend.named()):
        return Summary(text, certainty, "", "")
    reports = [line[at].report for line in trend.lines.values() if at in line]
    why = f"measure {why} on new seeds, which chose no winner:"
    return Summary(text, certainty, why, study_command("confirm", *reports))


def _above(pairs: Mapping[str, Comparison], other: str) -> str:
    below = [value for value, one in pairs.items() if one.difference <= 0]
    of = f"{len(pairs) - len(below)} of {len(pairs)}" if below else f"all {len(pairs)}"
    mean = 100 * sum(one.difference for one in pairs.values()) / max(len(pairs), 1)
    but = f" (not at {', '.join(below)})" if below else ""
    return f"above {other} at {of} values{but}, by {mean:.1f} points on average"


def _certainty(trend: Trend) -> Iterator[str]:
    if len(trend.lines) > 1:
        best, second, *_ = trend.lines
        pairs = trend.differences(best, second).values()
        sure = sum(one.interval is not None and one.interval[0] > 0 for one in pairs)
        lead = f"{best} - {second}"
        yield f"The 95 % interval of {lead} is above 0 at {sure} of {len(pairs)} values."
    found = trend.named()
    spread = 100 * max(_score(one)[1] or 0.0 for one in found)
    seeds = counted(min(one.report.seeds for one in found), "seed")
    yield f"Each point has at least {seeds}, whose scores spread by up to {spread:.1f} points."
    if len({_inputs(one.report) for one in found}) > 1:
        yield "The test rows differ between values."
