"""Results of a study as tables of the page: cells are texts, or SVG with one dot per seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sclsearch.canonical import counted, settings
from sclsearch.reports.commands import rerun_command, search_command
from sclsearch.reports.comparison import StudyComparison
from sclsearch.reports.comparison_tables import points, text_frame
from sclsearch.reports.page.winner import calibration, class_scores
from sclsearch.reports.report import ConfigurationLine, Report, tested_winner
from sclsearch.reports.table import stored_seed_runs
from sclsearch.reports.words import (
    duration,
    race_statement,
    rule_of,
    test_result,
    validation_result,
    values_of,
    with_spread,
)
from sclsearch.selection.rules import mean_std
from sclsearch.selection.significance import signed_points
from sclsearch.store.runs import SeedRun
from sclsearch.tasks.metrics import MAXIMUM, METRICS

if TYPE_CHECKING:
    import pandas as pd

MOST, MOST_IN_ANSWER = 20, 4
"""Number of configurations in the ranking, and on the first screen."""
LONGEST_NAME = 40
"""Characters up to which the beginning of a fact, before its colon, is the name of a value."""


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
        tests = [self.runs[seed.key].test for seed in self.winner.seeds]
        return [np.array(one["confusion"], float) for one in tests if "confusion" in one]

    @property
    def clear(self) -> bool:
        """True if the winner is useful, and reliably above the next configuration."""
        following = self.report.over_next
        return self.report.verdict is None and (following is None or following.reliable)

    def answer(self) -> "pd.DataFrame":
        """Return the winner, the next configurations and the baselines, with the winner's lead."""
        others = [one for one in self.report.configurations if one.reported]
        lines = [self.winner, *(one for one in others if one is not self.winner)]
        return self._table(lines[:MOST_IN_ANSWER], {"spread", "seeds", "failed", "configuration"})

    def ranking(self) -> "pd.DataFrame":
        """Return the best configurations and the baselines."""
        return self._table(self.report.configurations[:MOST], {"lead", "95 %"})

    def _table(self, found: Sequence[ConfigurationLine], without: set[str]) -> "pd.DataFrame":
        """Return configurations and the baselines without empty and the named columns."""
        report, lines = self.report, [*found, *self.report.baselines]
        test, rows = f"{report.tested_on} {report.metric}", [*map(self._cells, lines)]
        if report.tested_on == "fold":  # the test scores are the validation scores
            without = without | {f"validation {report.metric}", "spread"}
        cells = text_frame([one.values() for one in rows], rows[0]).drop(columns=[*without])
        cells = cells.loc[:, (cells != "").any()]
        tested = report.has_test and not any(line.untested for line in lines)
        seeds = [_seeds(line, "test" if tested else "validation") for line in lines]
        split = report.tested_on if tested else "validation"
        with_dots(cells, list(cells).index(test) + 1, seeds, split, report.metric, len(found))
        return cells

    def _cells(self, line: ConfigurationLine) -> dict[str, object]:
        """Return the cells of a configuration, or of a baseline, by column."""
        report, baseline = self.report, line in self.report.baselines
        leads = {one.name: one.lead for one in report.against}
        lead = leads.get(line.origin) if baseline else None
        std = mean_std(line.validations)[1] if line.validations else None
        some = f" ({line.succeeded} of {len(line.seeds)} seeds)" if line.failed else ""
        validation, test = validation_result(line, "–"), f"{test_result(line)}{some}"
        if len(line.seeds) < report.seeds:
            test = validation if report.tested_on == "fold" else "–"
        return {
            "": line.origin if baseline else f"#{line.number}",
            f"validation {report.metric}": validation,
            "spread": "–" if std is None else f"{std:.4f}",
            f"{report.tested_on} {report.metric}": test,
            "seeds": f"{line.succeeded}/{report.seeds}",
            "failed": line.failed or "",
            "lead": signed_points(lead.difference) if lead else "",
            "95 %": points(lead.interval) if lead else "",
            "configuration": "" if baseline else values_of(report, line),
        }

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
    score = f"{compared.tested_on if compared.tested else 'validation'} {compared.metric}"
    if not compared.tested:
        names = [(one.name, f"{one.score:.4f}") for one in compared.ranked]
        return text_frame(names, ("", score))
    own = best.report
    rows: list[tuple[str, ...]] = []
    lines = [one.winner for one in compared.ranked]
    for one in compared.ranked:
        pair = compared.pair(best, one) if one is not best else None
        found = None if pair is None else pair.comparison
        rows.append(
            (
                one.name,
                with_spread(one.score, one.test_std),
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
    with_dots(cells, 2, seeds, compared.tested_on, compared.metric, len(compared.ranked))
    return cells


def with_dots(
    cells: "pd.DataFrame",
    column: int,
    seeds: Sequence[Sequence[float]],
    split: str,
    metric: str,
    count: int,
) -> None:
    """Insert a column with the place of each seed on a shared axis of 200 pixels, a list per row.

    The axis has the scores of the first `count` rows. Its ticks are in `cells.attrs`.
    """
    import pandas as pd
    from matplotlib.ticker import MaxNLocator

    scores = [score for own in seeds[:count] for score in own]
    if not scores:
        return
    margin = 0.05 * (max(scores) - min(scores)) or 0.01
    low = max(min(scores) - margin, METRICS[metric].minimum)
    high = min(max(scores) + margin, MAXIMUM)

    def place(score: float) -> float:
        return round(200 * (score - low) / (high - low), 1)

    marks = MaxNLocator(3, steps=[1, 2, 5, 10]).tick_values(low, high)
    cells.attrs["ticks"] = {f"{one:g}": place(one) for one in marks if low <= one <= high}
    cells.attrs["dots"] = f"{split} {metric} of each seed"
    places = pd.Series([[*map(place, own)] for own in seeds], dtype=object)
    cells.insert(column, cells.attrs["dots"], places)


def _seeds(line: ConfigurationLine, split: str) -> list[float]:
    found = (getattr(seed, split) for seed in line.seeds)
    return [score for score in found if score is not None]


def settings_table(
    found: Sequence[StudyResults], compared: StudyComparison | None
) -> "pd.DataFrame":
    """Return data, encoder, protocol, space and time of the studies; a shared value stands once."""
    merged: dict[str, dict[str, list[str]]] = {}
    for one in found:
        for name, text in one.facts():
            merged.setdefault(name, {}).setdefault(text, []).append(one.name)
    rows = []
    for name, texts in merged.items():
        values = [
            text if len(studies) == len(found) else f"{', '.join(studies)}: {text}"
            for text, studies in texts.items()
        ]
        rows.append((name, "; ".join(values)))
    notes = compared.notes if compared else ()
    rows += [("note", note) for note in notes if note.kind == "fact"]
    return text_frame(rows, ("what", "value"))


def classes_side_by_side(found: Sequence[StudyResults]) -> "pd.DataFrame":
    """Return the F1 score of each class and the calibration error, one column per study."""
    cells = {"class": [*found[0].labels, "calibration error"]}
    for one in found:
        scores = [with_spread(*f1) for _, _, f1 in class_scores(one.confusions)]
        error = calibration(one.predictions)
        cells[one.name] = [*scores, "–" if error is None else with_spread(*error[1])]
    return text_frame(zip(*cells.values(), strict=True), cells)
