"""Results of a study as tables of the page: cells are texts, or SVG with one dot per seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted, settings
from sclsearch.protocols import PROTOCOLS
from sclsearch.reports.commands import as_setting, rerun_command, search_command
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.comparison_tables import points, text_frame
from sclsearch.reports.page.winner import calibration, class_scores, confusions
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner, tested_winner
from sclsearch.reports.summary import name_of
from sclsearch.reports.table import stored_seed_runs
from sclsearch.reports.words import (
    duration,
    race_statement,
    rule_in_words,
    rule_of,
    test_result,
    validation_result,
    values_of,
    with_spread,
)
from sclsearch.selection.rules import mean_std, parse_rule, reported_test
from sclsearch.selection.significance import signed_points
from sclsearch.store.runs import SeedRun

if TYPE_CHECKING:
    import pandas as pd

MOST, MOST_IN_ANSWER = 20, 4
"""Number of configurations in the ranking, and on the first screen."""
LONGEST_NAME = 40
"""Characters up to which the beginning of a fact, before its colon, is the name of a value."""
STRIP = 200
"""Width of the dots of a configuration's seeds, in pixels."""
KINDS = {
    "mean": "score to expect of one training",
    "top-3": "score to expect of the 3 best of all seeds by validation",
    "best": "score of the best of all seeds by validation: one value, without a spread",
}


@dataclass(frozen=True)
class StudyResults:
    """Report of a study with the stored results behind it, read once for all sections.

    `runs` are the seed runs of all configurations without their predictions, by key. `name` is the
    method, or the study where several studies of the page have that method. `prefix` is that of
    anchors and file names; it is empty if the page has only one study.
    """

    report: Report
    name: str
    winner: ConfigurationLine
    runs: Mapping[str, SeedRun]
    prefix: str

    @cached_property
    def predictions(self) -> "pd.DataFrame":
        """Predictions of the winner's seeds."""
        return replace(self.report, configurations=(self.winner,)).predictions()

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, self.report.record.origin.get("labels", ())))

    @property
    def confusions(self) -> "list[np.ndarray]":
        """Confusion matrix of each seed of the winner on the test rows, `[C, C]`."""
        return confusions([self.runs[seed.key] for seed in self.winner.seeds])

    def answer(self) -> "pd.DataFrame":
        """Return the winner, the next configurations and the baselines, with the winner's lead."""
        report, winner = self.report, self.winner
        others = [one for one in report.configurations if one is not winner and one.reported]
        lines = [winner, *others[: MOST_IN_ANSWER - 1], *report.baselines]
        leads = {one.name: one.lead for one in report.against}
        rows = [
            (
                line.origin if line in report.baselines else f"#{line.number}",
                *self._scores(line),
                "" if lead is None else signed_points(lead.difference),
                "" if lead is None else points(lead.interval),
            )
            for line in lines
            for lead in [leads.get(line.origin) if line in report.baselines else None]
        ]
        cells = text_frame(rows, ("", *self._score_columns, "lead", "95 %"))
        self._with_dots(cells, 3, lines)
        return cells if leads else cells.drop(columns=["lead", "95 %"])

    def ranking(self) -> "pd.DataFrame":
        """Return the best configurations and the baselines."""
        lines = [*self.report.configurations[:MOST], *self.report.baselines]
        rows = []
        for line in lines:
            std = mean_std(line.validations)[1] if line.validations else None
            baseline = line in self.report.baselines
            name = f"baseline: {line.origin}" if baseline else values_of(self.report, line)
            validation, test = self._scores(line)
            test = test if len(line.seeds) == self.report.seeds else "–"
            seeds = f"{line.succeeded}/{self.report.seeds}"
            spread = "–" if std is None else f"{std:.4f}"
            number = "" if baseline else line.number
            rows.append((number, validation, spread, test, seeds, line.failed or "", name))
        validation, test = self._score_columns
        header = ("#", validation, "spread", test, "seeds", "failed", "configuration")
        cells = text_frame(rows, header)
        self._with_dots(cells, 4, lines)
        return cells if any(line.failed for line in lines) else cells.drop(columns="failed")

    def _with_dots(
        self, cells: "pd.DataFrame", column: int, lines: Sequence[ConfigurationLine]
    ) -> None:
        tested = self.report.has_test and not any(line.untested for line in lines)
        split = "test" if tested else "validation"
        own = len(lines) - len(self.report.baselines)
        with_dots(cells, column, [_seeds(line, split) for line in lines], split, own)

    @property
    def _score_columns(self) -> tuple[str, str]:
        return f"validation {self.report.metric}", f"test {self.report.metric}"

    def _scores(self, line: ConfigurationLine) -> tuple[str, str]:
        seeds = f" ({line.succeeded} of {len(line.seeds)} seeds)" if line.failed else ""
        return validation_result(line, "–"), f"{test_result(line)}{seeds}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield name and value of data, encoder, protocol, space and time."""
        report, labels = self.report, self.labels
        count = counted(len(report.configurations), "configuration")
        values = {
            "task": report.task,
            "rows": str(report.record.origin.get("source", "")),
            "training examples": report.size,
            "classes": ", ".join(labels[:MOST]) + " …" * (len(labels) > MOST),
            "encoder": report.model,
            "protocol": f"{report.protocol}; {counted(report.seeds, 'seed')} per configuration",
            "rule": f"{report.rule}: validation {report.metric}, {rule_of(report)}",
            "test rows": report.choice if report.has_test else "",
            "search space": report.space_note,
            "searched": ", ".join(one["name"] for one in self.parameters),
            "set by hand": settings(report.settings),
            "search": f"{count}. {race_statement(report)}",
            "training": f"{counted(len(report.seed_runs), 'seed run')}, {duration(report.seconds)}",
        }
        yield from ((name, text) for name, text in values.items() if text)
        for note in report.notes:
            if note.kind == "fact":
                name, _, text = note.partition(": ")
                yield (name, text) if text and len(name) <= LONGEST_NAME else ("note", note)

    @property
    def parameters(self) -> Sequence[Mapping[str, str]]:
        """Searched hyperparameters that the configurations have."""
        lines, found = self.report.configurations, self.report.record.identity["space"]
        return [
            one for one in found["parameters"] if any(one["name"] in line.values for line in lines)
        ]

    def curves(self) -> "pd.DataFrame":
        """Return the winner's validation scores during training."""
        rows = replace(self.report, configurations=(self.winner,)).curves()
        return rows[rows["name"] == f"validation.{self.report.metric}"]

    def reported(self) -> "pd.DataFrame":
        """Return the winner's test scores as papers report them: mean, top 3 and best seed."""
        report, winner = self.report, self.winner
        validation = [seed.validation for seed in winner.seeds]
        tests = [seed.test for seed in winner.seeds]
        own, rows = str(parse_rule(report.rule).report), []
        for name in dict.fromkeys((*KINDS, own)):
            rule = parse_rule(name)
            if name != own and rule.least > winner.succeeded:
                continue
            seeds, mean, std = reported_test(rule, validation, tests)
            papers = [
                key
                for key, one in PROTOCOLS.items()
                if str(one.rule.report) == name and ":" not in key  # without the numbered ones
            ]
            rows.append(
                (
                    rule_in_words(name, report.seeds) + (" (this report)" if name == own else ""),
                    "none" if mean is None else with_spread(mean, std),
                    counted(len(seeds), "seed"),
                    KINDS.get(name, f"score to expect of the {name} seeds by validation"),
                    ", ".join(papers) or "–",
                )
            )
        header = ("score", f"test {report.metric}", "seeds", "kind", "protocols that report it")
        return text_frame(rows, header)

    def errors(self) -> "pd.DataFrame":
        """Return correlation and error of a regression's winner on the test rows."""
        runs = [self.runs[seed.key].test for seed in self.winner.seeds if seed.failure is None]
        errors = {
            "Pearson": [one["pearson"] for one in runs],
            "Spearman": [one["spearman"] for one in runs],
            "root mean squared error": [one["mse"] ** 0.5 for one in runs],
        }
        rows = [(kind, with_spread(*mean_std(values))) for kind, values in errors.items()]
        return text_frame(rows, ("", "score"))

    def environment(self) -> Iterator[tuple[str, str]]:
        """Yield the software and machines of the seed runs, and what the study trains on."""
        found: dict[str, set[str]] = {}
        for run in self.runs.values():
            parts = {**run.environment, **run.environment.get("packages", {})}
            for name, value in parts.items():
                if name not in {"packages", "pid"} and value is not None:
                    found.setdefault(name, set()).add(str(value))
        yield from ((name, ", ".join(sorted(values))) for name, values in sorted(found.items()))
        for name, value in sorted(self.report.record.training.items()):
            yield f"study: {name}", as_setting(value)

    def commands(self) -> Iterator[str]:
        """Yield the commands that repeat the search and the winner's best seed run."""
        if not self.report.repeats:
            yield search_command(self.report)
        best = self.winner.seeds[self.winner.reported[0]]
        yield rerun_command(self.report, best.key)


def read_results(reports: Sequence[Report]) -> list[StudyResults]:
    """Return the results of studies."""
    methods = [report.method for report in reports]
    found = []
    for report in reports:
        # Predictions of thousands of seed runs would fill the memory.
        runs = {run.key: replace(run, predictions={}) for _, _, run in stored_seed_runs(report)}
        name = report.method if methods.count(report.method) == 1 else report.study
        prefix = f"{report.study}-" if len(reports) > 1 else ""
        found.append(StudyResults(report, name, tested_winner(report), runs, prefix))
    return found


def best_study(compared: StudyComparison) -> "pd.DataFrame":
    """Return the compared winners, best first, and the baselines of the first, with its lead."""
    best = compared.ranked[0]
    score = f"{'test' if compared.tested else 'validation'} {compared.metric}"
    if not compared.tested:
        names = [name_of(compared, one) for one in compared.ranked]
        values = [f"{one.validation or 0.0:.4f}" for one in compared.ranked]
        return text_frame(zip(names, values, strict=True), ("", score))
    own = compared.report_of(best)
    rows: list[tuple[str, ...]] = []
    lines = [finished_winner(compared.report_of(one)) for one in compared.ranked]
    for one in compared.ranked:
        pair = compared.pair(best, one) if one is not best else None
        found = None if pair is None else pair.comparison
        rows.append(
            (
                name_of(compared, one),
                with_spread(one.test_mean or 0.0, one.test_std),
                "" if found is None else signed_points(found.difference),
                "" if found is None else points(found.interval),
                "" if pair is None else f"{pair.adjusted:.3f}",
            )
        )
    scores = {line.origin: line for line in own.baselines}
    for against in own.against:
        lead = signed_points(against.lead.difference), points(against.lead.interval)
        rows.append((against.name, test_result(scores[against.name]), *lead, ""))
        lines.append(scores[against.name])
    cells = text_frame(rows, ("", score, "lead", "95 %", "p"))
    seeds = [_seeds(line, "test")[: compared.seeds] for line in lines]
    with_dots(cells, 2, seeds, "test", len(compared.ranked))
    return cells


def with_dots(
    cells: "pd.DataFrame",
    column: int,
    seeds: Sequence[Sequence[float]],
    split: str,
    count: int,
) -> None:
    """Insert a column with one dot per seed on a shared axis, and a bar at their mean.

    The axis has the scores of the first `count` rows; arrows stand for scores beyond its ends.
    """
    import pandas as pd
    from markupsafe import Markup

    scores = [score for own in seeds[:count] for score in own]
    if not scores:
        return
    margin = 0.05 * (max(scores) - min(scores)) or 0.01
    low, high = min(scores) - margin, max(scores) + margin

    def strip(own: Sequence[float]) -> Markup:
        at = [STRIP * (one - low) / (high - low) for one in own]
        mean = float(np.mean(at)) if own else 0.0
        shapes = [f'<circle cx="{x:.0f}" cy="9" r="4"/>' for x in at]
        if mean < 0:
            shapes = ['<path d="M2 9l6 -5v10z"/>']
        elif mean > STRIP:
            shapes = [f'<path d="M{STRIP - 2} 9l-6 -5v10z"/>']
        elif own:
            shapes.append(f'<path class="mean" d="M{mean:.0f} 1v16"/>')
        return Markup(f'<svg class="strip" viewBox="0 0 {STRIP} 18">{"".join(shapes)}</svg>')

    strips = pd.Series([*map(strip, seeds)], dtype=object)  # not texts, which would be escaped
    cells.insert(column, f"{split} of each seed, {low:.2f} … {high:.2f}", strips)


def _seeds(line: ConfigurationLine, split: str) -> list[float]:
    found = (getattr(seed, split) for seed in line.seeds)
    return [score for score in found if score is not None]


def settings_table(
    found: Sequence[StudyResults], compared: StudyComparison | None
) -> "pd.DataFrame":
    """Return data, encoder, protocol, space and time of the studies."""
    facts = [one for one in (compared.notes if compared else ()) if one.kind == "fact"]
    return _shared({one.name: [*one.facts()] for one in found}, [("note", one) for one in facts])


def environment_table(found: Sequence[StudyResults]) -> "pd.DataFrame":
    """Return the software and machines of the studies."""
    return _shared({one.name: [*one.environment()] for one in found})


def _shared(
    values: Mapping[str, Sequence[tuple[str, str]]], more: Sequence[tuple[str, str]] = ()
) -> "pd.DataFrame":
    """Return names and values of several studies as a table; a shared value stands once."""
    merged: dict[str, dict[str, list[str]]] = {}
    for study, own in values.items():
        for name, text in own:
            merged.setdefault(name, {}).setdefault(text, []).append(study)
    rows = [
        (
            name,
            "; ".join(
                text if len(studies) == len(values) else f"{', '.join(studies)}: {text}"
                for text, studies in texts.items()
            ),
        )
        for name, texts in merged.items()
    ]
    return text_frame([*rows, *more], ("what", "value"))


def classes_side_by_side(found: Sequence[StudyResults]) -> "pd.DataFrame":
    """Return the F1 score of each class and the calibration error, one column per study."""
    cells = {"class": [*found[0].labels, "calibration error"]}
    for one in found:
        scores = [with_spread(*f1) for _, _, f1 in class_scores(one.confusions)]
        error = calibration(one.predictions)
        cells[one.name] = [*scores, "–" if error is None else with_spread(*error[1])]
    return text_frame(zip(*cells.values(), strict=True), cells)
