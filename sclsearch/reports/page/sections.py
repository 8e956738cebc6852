"""Sections of the page on studies: answer, data, ranking, seeds, comparison, cost and commands.

Each function takes all studies of the page. With several, tables have a first column that names
the study, by its method where that is enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sclsearch.canonical import counted, settings
from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.commands import as_setting, rerun_command, search_command, study_command
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.comparison_tables import (
    COLUMNS,
    budget_table,
    difference_table,
    limit_of_winners,
    limits,
    text_frame,
    winner_table,
)
from sclsearch.reports.page import plots
from sclsearch.reports.page.plots import Plot, Section, Table
from sclsearch.reports.report import ConfigurationLine, Report, tested_winner
from sclsearch.reports.table import stored_seed_runs
from sclsearch.reports.terminal import (
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
from sclsearch.store.runs import SeedRun

if TYPE_CHECKING:
    import pandas as pd

MOST = 20
"""Number of configurations in the ranking on the page."""
LONGEST_NAME = 40
"""Characters up to which the beginning of a fact, before its colon, is the name of a value."""
KINDS = {
    "mean": "score to expect of one training",
    "top-3": "score to expect of the 3 best of all seeds by validation",
    "best": "score of the best of all seeds by validation: one value, without a spread",
}
Rows = list[list[object]]


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
        return replace(self.report, configurations=(self.winner,)).predictions()

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, self.report.record.origin.get("labels", ())))


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


def compare_results(found: Sequence[StudyResults]) -> StudyComparison | str:
    """Return the comparison of the studies, or why there is none."""
    try:
        return compare_studies([one.report for one in found])
    except SclsearchError as error:
        return f"The studies cannot be compared. {error}"


def warnings(found: Sequence[StudyResults], compared: StudyComparison | str | None) -> Section:
    """Return the warnings of all studies, each once."""
    section, several = Section("warnings", "Warnings"), len(found) > 1
    texts: dict[str, list[str]] = {}
    for one in found:
        for note in one.report.notes:
            if note.kind not in {"fact", "seeds"}:  # the settings state the seeds
                texts.setdefault(note.text, []).append(one.name)
    section.notes = [
        f"{', '.join(names)}: {text}" if several and len(names) < len(found) else text
        for text, names in texts.items()
    ]
    if isinstance(compared, StudyComparison):
        section.notes += [note.text for note in compared.notes if note.kind != "fact"]
    return section


def settings_table(
    found: Sequence[StudyResults], compared: StudyComparison | str | None
) -> Section:
    """Return data, encoder, protocol, space and time of the studies; a shared value stands once."""
    values: dict[str, dict[str, list[str]]] = {}
    for one in found:
        for name, text in _settings(one):
            values.setdefault(name, {}).setdefault(text, []).append(one.name)
    rows = [
        (
            name,
            "; ".join(
                text if len(names) == len(found) else f"{', '.join(names)}: {text}"
                for text, names in texts.items()
            ),
        )
        for name, texts in values.items()
    ]
    if isinstance(compared, StudyComparison):
        rows += [("note", note) for note in compared.notes if note.kind == "fact"]
    table = Table("settings", "", text_frame(rows, ("what", "value")))
    return Section("settings", "Data and settings", tables=[table])


def _settings(results: StudyResults) -> Iterator[tuple[str, str]]:
    report, labels = results.report, results.labels
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
        "searched": ", ".join(one["name"] for one in report.record.identity["space"]["parameters"]),
        "set by hand": settings(report.settings),
        "search": f"{count}. {race_statement(report)}",
        "training": f"{counted(len(report.seed_runs), 'seed run')}, {duration(report.seconds)}",
    }
    yield from ((name, text) for name, text in values.items() if text)
    for note in report.notes:
        if note.kind == "fact":
            name, _, text = note.partition(": ")
            yield (name, text) if text and len(name) <= LONGEST_NAME else ("note", note)


def ranking(results: StudyResults) -> Section:
    """Return the ranking with scores, spread, seeds, failures and the statement of the race."""
    report = results.report
    lines = [(line, False) for line in report.configurations[:MOST]]
    lines += [(line, True) for line in report.baselines]
    rows = [_ranked(report, line, baseline=baseline) for line, baseline in lines]
    more = len(report.configurations) - MOST
    header = ("#", f"validation {report.metric}", "spread", f"test {report.metric}", "seeds")
    caption = (
        "Configurations, best first, and baselines. All "
        f"hyperparameters{f', and {more} further configurations' if more > 0 else ''}: "
        "tables/configurations.csv."
    )
    table = text_frame(rows, (*header, "failed", "configuration"))
    return Section(
        f"{results.prefix}ranking",
        "Ranking",
        [
            f"Score: validation {report.metric}, {rule_of(report)} (rule {report.rule}). Spread: "
            "sample standard deviation over the seeds of a configuration. A failed seed counts as "
            "the metric's minimum in the score."
        ],
        tables=[Table(f"{results.prefix}ranking", caption, table, bold=(0,))],
    )


def _ranked(report: Report, line: ConfigurationLine, *, baseline: bool) -> list[object]:
    std = mean_std(line.validations)[1] if line.validations else None
    return [
        "" if baseline else line.number,
        validation_result(line, "–"),
        "–" if std is None else f"{std:.4f}",
        test_result(line) if len(line.seeds) == report.seeds else "–",
        f"{line.succeeded}/{report.seeds}",
        line.failed or "",
        f"baseline: {line.origin}" if baseline else values_of(report, line),
    ]


def reported_scores(found: Sequence[StudyResults]) -> Section:
    """Return the winners' test scores as papers report them: mean, top 3 and best seed."""
    metrics = ", ".join(dict.fromkeys(one.report.metric for one in found))
    header = ("study", "score", f"test {metrics}", "seeds", "kind", "protocols that report it")
    table = text_frame([[one.name, *row] for one in found for row in _reported(one)], header)
    if len(found) == 1:
        table = table.drop(columns="study")
    caption = "Mean ± sample standard deviation."
    text = (
        "The validation rows chose the configuration and the seeds. The seeds that chose the "
        "configuration also give these scores. `sclsearch confirm` repeats the winner on new seeds."
    )
    section = Section("test", "Test scores as papers report them", [text], folded=True)
    section.tables = [Table("test", caption, table)]
    return section


def _reported(results: StudyResults) -> Iterator[list[object]]:
    report, winner = results.report, results.winner
    validation = [seed.validation for seed in winner.seeds]
    tests = [seed.test for seed in winner.seeds]
    own = str(parse_rule(report.rule).report)
    for name in dict.fromkeys((*KINDS, own)):
        rule = parse_rule(name)
        if name != own and rule.least > winner.succeeded:
            continue
        seeds, mean, std = reported_test(rule, validation, tests)
        reporting = [key for key, one in PROTOCOLS.items() if str(one.rule.report) == name]
        papers = [key for key in reporting if ":" not in key]  # without the numbered ones
        yield [
            rule_in_words(name, report.seeds) + (" (this report)" if name == own else ""),
            "none" if mean is None else with_spread(mean, std),
            counted(len(seeds), "seed"),
            KINDS.get(name, f"score to expect of the {name} seeds by validation"),
            ", ".join(papers) or "–",
        ]


def seeds(results: StudyResults) -> Section:
    """Return dot plots with every seed of every configuration, and the baselines as lines."""
    report = results.report
    section = Section(f"{results.prefix}seeds", "Every seed of every configuration")
    tested = [line for line in report.configurations if not line.untested]
    for split, lines in (("validation", report.configurations), ("test", tested)):
        if split == "test" and not report.has_test:
            continue
        figure = plots.seed_plot(lines, report.baselines, split, report.metric)
        caption = (
            f"{split.capitalize()} {report.metric}: one dot per seed; filled dots are the seeds "
            "that the rule reports; bars are means over the seeds."
        )
        section.plots.append(Plot(f"{results.prefix}seeds-{split}", caption, figure))
    if len(report.configurations) > plots.MOST:
        section.text = [f"The figures show the best {plots.MOST} configurations."]
    return section


def curves(results: StudyResults) -> Section:
    """Return the winner's validation scores during training."""
    report, name = results.report, f"{results.prefix}curves"
    rows = replace(report, configurations=(results.winner,)).curves()
    rows = rows[rows["name"] == f"validation.{report.metric}"]
    caption = f"Validation {report.metric} of the winner's seeds; a ring marks the kept evaluation."
    figure = plots.curve_plot([own for _, own in rows.groupby("replicate")], report.metric)
    return Section(name, "Learning curves", plots=[Plot(name, caption, figure)], folded=True)


def hyperparameters(results: StudyResults) -> Section:
    """Return the score against each searched hyperparameter."""
    lines, metric = results.report.configurations, results.report.metric
    section = Section(
        f"{results.prefix}hyperparameters", "Score against hyperparameters", folded=True
    )
    for parameter in (
        results.report.record.identity["space"]["parameters"] if len(lines) > 1 else ()
    ):
        name = parameter["name"]
        if any(name in line.values for line in lines):
            figure = plots.hyperparameter_plot(lines, name, parameter, metric)
            caption = f"Validation {metric} against {name}: dots are means, dashes are seeds."
            section.plots.append(Plot(f"{results.prefix}score-{name}", caption, figure))
    if not section.plots:
        section.text = [
            "The study has one configuration, so that no hyperparameter varies. `sclsearch tune` "
            "with a larger --configs adds configurations."
        ]
    return section


def comparison(compared: StudyComparison) -> Section:
    """Return the winners side by side, and the paired differences of the best from the others."""
    section = Section("comparison", "Winners side by side")
    section.tables = [
        Table("winners", "Winners and their scores.", winner_table(compared)),
        Table("budget", "Budget of each search.", budget_table(compared.reports)),
    ]
    if not compared.tested:
        section.text = [f"The studies have {NO_TEST_ROWS}, so the winners are not compared."]
        return section
    comparisons = [one.comparison for one in compared.pairs]
    section.text = [limits(comparisons), limit_of_winners(compared)]
    caption = f"{compared.ranked[0].study} minus the others, in points. {COLUMNS}."
    section.tables.append(Table("comparison", caption, difference_table(compared)))
    return section


def cost(found: Sequence[StudyResults]) -> Section:
    """Return seed runs and hours of training, and what a race saved."""
    section, rows = Section("cost", "Cost", folded=True), []
    for one in found:
        report, trained = one.report, len(one.runs)
        total = len(report.configurations) * report.seeds
        seconds = sum(run.seconds for run in one.runs.values())
        mean, left = seconds / trained, total - trained
        rows.append(
            [
                report.study,
                f"{trained} of {total}",
                sum(line.failed for line in report.configurations),
                f"{seconds / 3600:.2f}",
                f"{mean:.1f}",
                left,
                f"{left * mean / 3600:.2f}",
            ]
        )
        if left:
            section.text.append(
                f"{report.study}: {left} of {total} seed runs were not trained, about "
                f"{duration(left * mean)} at the mean time. A race skips seed runs of losing "
                "configurations; the same command with --race off trains them."
            )
    header = ("study", "seed runs", "failed", "hours", "seconds each", "not trained")
    caption = (
        "Training time is wall-clock time of each seed run, summed. The last column estimates the "
        "hours of the seed runs that were not trained, at the mean time."
    )
    section.tables = [Table("cost", caption, text_frame(rows, (*header, "hours of these")))]
    return section


def environment(found: Sequence[StudyResults]) -> Section:
    """Return the software, the machines and the hashes behind the results."""
    tables = [
        Table(
            f"{one.prefix}environment",
            f"{one.report.study}. A hash is SHA-256.",
            text_frame(_environment(one), ("what", "value")),
        )
        for one in found
    ]
    return Section("environment", "Environment and hashes", tables=tables, folded=True)


def _environment(results: StudyResults) -> Iterator[tuple[str, str]]:
    found: dict[str, set[str]] = {}
    for run in results.runs.values():
        parts = {**run.environment, **run.environment.get("packages", {})}
        for name, value in parts.items():
            if name not in {"packages", "pid"} and value is not None:
                found.setdefault(name, set()).add(str(value))
    yield from ((name, ", ".join(sorted(values))) for name, values in sorted(found.items()))
    for name, value in sorted(results.report.record.training.items()):
        yield f"study: {name}", as_setting(value)
    for number, rows in enumerate(results.report.rows):
        yield f"rows of seed {number}", " ".join(f"{kind}={rows[kind][:12]}" for kind in rows)
    for seed in results.winner.seeds:
        yield f"seed run key, winner, seed {seed.replicate}", seed.key


def commands(found: Sequence[StudyResults]) -> Section:
    """Return the commands that repeat the searches, the winners and this page."""
    text = (
        "A search resumes from the stored seed runs; in a new --storage it trains again. `rerun` "
        "trains one seed run again and compares it bit for bit."
    )
    section = Section("commands", "Commands that repeat it", [text], folded=True)
    for one in found:
        report, best = one.report, one.winner.seeds[one.winner.reported[0]]
        if not report.repeats:
            section.commands.append(search_command(report))
        section.commands.append(rerun_command(report, best.key))
    reports = [one.report for one in found]
    section.commands.append(f"{study_command('report', *reports)} --output FOLDER")
    return section
