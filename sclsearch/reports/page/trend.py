"""Scores of studies over the one setting in which they differ."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from sclsearch.canonical import counted, shown
from sclsearch.reports.commands import study_command
from sclsearch.reports.comparison_tables import text_frame
from sclsearch.reports.page.figures import as_number
from sclsearch.reports.page.results import StudyResults
from sclsearch.reports.report import Report
from sclsearch.reports.summary import Summary
from sclsearch.reports.words import with_spread

if TYPE_CHECKING:
    import pandas as pd

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

    @property
    def scored(self) -> str:
        report = self.named()[0].report
        return f"{report.tested_on} {report.metric}"

    @property
    def best_baselines(self) -> dict[str, tuple[float, str]]:
        """Mean test score and name of the best baseline at each value."""
        found: dict[str, tuple[float, str]] = {}
        for value in self.values:
            reports = [line[value].report for line in self.lines.values() if value in line]
            bases = [(b.plain[0], b.origin) for one in reports for b in one.baselines if b.plain]
            found |= {value: max(bases)} if bases else {}
        return found

    @property
    def baseline(self) -> str:
        """Label of the best baselines: which they are, from the first value to the last."""
        names = dict.fromkeys(name for _, name in self.best_baselines.values())
        return f"{BASELINE}: {', then '.join(names)}" if names else BASELINE

    def scores(self) -> dict[str, dict[str, tuple[float, float | None]]]:
        """Return mean and standard deviation of each method, then of the best baseline."""
        found: dict[str, dict[str, tuple[float, float | None]]] = {
            name: {value: _score(one) for value, one in line.items()}
            for name, line in self.lines.items()
        }
        found[self.baseline] = {v: (mean, None) for v, (mean, _) in self.best_baselines.items()}
        return found

    def table(self) -> "pd.DataFrame":
        """Return one row per value of the setting, and one column per method."""
        columns = {name: own for name, own in self.scores().items() if own}
        cells = [
            [with_spread(*own[value]) if value in own else "–" for value in self.values]
            for own in columns.values()
        ]
        rows = zip(self.values, *cells, strict=True)
        return text_frame(rows, (self.setting.removeprefix("number of "), *columns))


def find_trend(found: Sequence[StudyResults]) -> Trend | None:
    """Return the trend of tested studies that differ in one setting besides the method, or None.

    At each value the methods have the same data, metric and test rows.
    """
    lines: dict[str, list[StudyResults]] = {}
    for one in found:
        lines.setdefault(one.report.method, []).append(one)
    differing = _differing([[one.report for one in own] for own in lines.values()])
    if len(differing) != 1 or not all(one.report.has_test for one in found):
        return None
    (setting,) = differing
    placed, values = _placed(lines, setting)
    # Fewer values than studies: two studies of a method have one value.
    if setting == "protocol" or any(len(placed[name]) < len(own) for name, own in lines.items()):
        return None
    shared = [value for value in values if all(value in line for line in placed.values())]
    if any("" in line for line in placed.values()) or not shared or not _alike(placed, values):
        return None
    ranked = sorted(placed, key=lambda name: -sum(_score(placed[name][v])[0] for v in shared))
    return Trend(setting, values, {name: placed[name] for name in ranked})


def _placed(
    lines: Mapping[str, Sequence[StudyResults]], setting: str
) -> tuple[dict[str, dict[str, StudyResults]], list[str]]:
    """Return the studies by method and value of a setting, and the sorted values.

    The only study of a method without the setting stands for all values.
    """
    placed = {
        method: {_settings(one.report).get(setting, ""): one for one in own}
        for method, own in lines.items()
    }
    values = sorted({value for line in placed.values() for value in line} - {""}, key=_order)
    for method, line in placed.items():
        if len(lines[method]) == 1 and "" in line:
            line.update(dict.fromkeys(values, line.pop("")))
    return placed, values


def _alike(placed: Mapping[str, Mapping[str, StudyResults]], values: Sequence[str]) -> bool:
    """Return True if the methods have the same task, metric, data and test rows at each value."""
    inputs = ({_inputs(own[v].report) for own in placed.values() if v in own} for v in values)
    return all(len(one) == 1 for one in inputs)


def _differing(by_method: Sequence[Sequence[Report]]) -> set[str]:
    """Return the settings in which studies of one method differ."""
    found = set[str]()
    for reports in by_method:
        pairs = [{*_settings(one).items()} for one in reports]
        found |= {name for pair in pairs for name, _ in pair ^ pairs[0]}
    if SIZE in found:
        found.discard("protocol")  # a paper's protocol of few rows differs from that of all
    # Another encoder would count as a difference of the methods.
    models = {one.model for reports in by_method for one in reports}
    return found | {"encoder"} if len(models) > 1 else found


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
        "encoder": one.encoder,
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


def _lead(
    scores: Mapping[str, float], other: str, means: Mapping[str, tuple[float, float | None]]
) -> str:
    """Return how far scores are above those of another method, on average over the values."""
    leads = [scores[value] - mean for value, (mean, _) in means.items() if value in scores]
    where = f"{sum(lead > 0 for lead in leads)} of {len(leads)} values"
    return f"{100 * fmean(leads):.1f} points above {other} (higher at {where})"


def summary_of_trend(trend: Trend) -> Summary:
    """Return which method has the best mean over the setting, and how the scores spread."""
    best, *others = trend.lines
    means = trend.scores()
    scores = {value: mean for value, (mean, _) in means[best].items()}
    at, low = max(scores, key=scores.__getitem__), min(scores, key=scores.__getitem__)
    text = (
        f"The {trend.scored} of {best} is highest at {at}, {scores[at]:.4f}, and lowest at {low}, "
        f"{scores[low]:.4f}."
    )
    if others:
        parts = " and ".join(_lead(scores, other, means[other]) for other in others)
        text = f"{best} has the best {trend.scored} on average, {parts}."
    bases = means[trend.baseline]
    if below := [value for value in scores if value in bases and bases[value][0] >= scores[value]]:
        text += f" A baseline does as well or better at {', '.join(below)}."
    found = trend.named()
    spread = 100 * max(_score(one)[1] or 0.0 for one in found)
    seeds = counted(min(one.report.seeds for one in found), "seed")
    certainty = (
        f"Each point has at least {seeds}; their scores spread by up to {spread:.1f} points."
    )
    if len({_inputs(one.report) for one in found}) > 1:
        certainty += " The test rows differ between values."
    if any(one.report.repeats for one in found):
        return Summary(text, certainty, "", "")
    reports = [line[at].report for line in trend.lines.values() if at in line]
    why = f"measure the scores at {at} on new seeds, which chose no winner:"
    return Summary(text, certainty, why, study_command("confirm", *reports))
