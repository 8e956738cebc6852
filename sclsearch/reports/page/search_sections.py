"""Sections of one study about its search: ranking, seeds, hyperparameters."""

from collections.abc import Mapping, Sequence
from typing import Any

from sclsearch.canonical import counted, settings
from sclsearch.protocols import PROTOCOLS
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.notes import seeds_lacking
from sclsearch.reports.page import search_plots as plots
from sclsearch.reports.page.content import Plot, Section, Table, cells
from sclsearch.reports.page.results import StudyResults
from sclsearch.reports.report import Report
from sclsearch.reports.terminal import (
    CONFIGURATION,
    race_statement,
    rule_in_words,
    seed_scores,
    test_result,
    validation_result,
    with_spread,
)
from sclsearch.selection.rules import mean_std, parse_rule, reported_test

MOST = 20
"""Number of configurations in the ranking on the page."""
KINDS = {
    "mean": "score to expect of one training",
    "top-3": "score to expect of the 3 best of all seeds by validation",
    "best": "score of the best of all seeds by validation: one value, without a spread",
}
MORE_CONFIGURATIONS = "`sclsearch tune` with a larger --configs adds configurations."


def ranking(results: StudyResults) -> Section:
    """Return the ranking with scores, spread, seeds, failures and the statement of the race."""
    report = results.report
    section = Section(f"{results.prefix}ranking", "Ranking")
    top = report.rule.partition("/")[0]
    section.text = [
        f"Score: validation {report.metric}, {rule_in_words(top, report.seeds)} (rule "
        f"{report.rule}). Spread: sample standard deviation over the seeds of a configuration. A "
        "failed seed counts as the metric's minimum in the score.",
        race_statement(report),
    ]
    section.notes = [note for note in report.notes if note != seeds_lacking(report)]
    lines = [(line, False) for line in report.configurations[:MOST]]
    lines += [(line, True) for line in report.baselines]
    rows = [_ranked(report, line, baseline=baseline) for line, baseline in lines]
    more = len(report.configurations) - MOST
    header = ("#", f"validation {report.metric}", "spread", f"test {report.metric}", "seeds")
    section.tables = [
        Table(
            f"{results.prefix}ranking",
            "Configurations, best first, and baselines. All "
            f"hyperparameters{f', and {more} further configurations' if more > 0 else ''}: "
            "tables/configurations.csv.",
            cells(rows, (*header, "failed", "configuration")),
            bold=(0,),
        )
    ]
    return section


def _ranked(report: Report, line: ConfigurationLine, *, baseline: bool) -> list[object]:
    scores = seed_scores(line)
    std = mean_std(scores)[1] if scores else None
    name = f"baseline: {line.origin}" if baseline else settings(line.values)
    return [
        "" if baseline else line.number,
        validation_result(line, "–"),
        "–" if std is None else f"{std:.4f}",
        test_result(line) if len(line.seeds) == report.seeds else "–",
        f"{len(line.seeds) - line.failed}/{report.seeds}",
        line.failed or "",
        name or CONFIGURATION[report.repeats],
    ]


def reported_scores(results: StudyResults) -> Section:
    """Return the winner's test score as the papers report it: mean, top 3 and best seed."""
    report, winner = results.report, results.winner
    section = Section(f"{results.prefix}test", "Test score as papers report it")
    validation = [seed.validation for seed in winner.seeds]
    tests = [seed.test for seed in winner.seeds]
    own = str(parse_rule(report.rule).report)
    rows = []
    for name in dict.fromkeys((*KINDS, own)):
        rule = parse_rule(name)
        if name != own and rule.least > len(winner.seeds) - winner.failed:
            continue
        seeds, mean, std = reported_test(rule, validation, tests)
        reporting = [key for key, one in PROTOCOLS.items() if str(one.rule.report) == name]
        papers = [key for key in reporting if ":" not in key]  # without the numbered ones
        rows.append(
            [
                rule_in_words(name, report.seeds) + (" (this report)" if name == own else ""),
                "none" if mean is None else with_spread(mean, std),
                counted(len(seeds), "seed"),
                KINDS.get(name, f"score to expect of the {name} seeds by validation"),
                ", ".join(papers) or "–",
            ]
        )
    header = ("score", f"test {report.metric}", "seeds", "kind", "protocols that report it")
    caption = (
        f"Test {report.metric} of the winner #{winner.number}, mean ± sample standard deviation."
    )
    section.tables = [Table(f"{results.prefix}test", caption, cells(rows, header))]
    section.text = [
        "The validation rows chose the configuration and the seeds; the test rows chose nothing. "
        "The seeds that chose the configuration also give these scores. `sclsearch confirm` "
        "repeats the winner on new seeds, without selection bias."
    ]
    return section


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


def hyperparameters(results: StudyResults) -> Section:
    """Return the score against each searched hyperparameter."""
    report = results.report
    section = Section(f"{results.prefix}hyperparameters", "Score against hyperparameters")
    searched = {
        one["name"]: one
        for one in _searched(results)
        if any(one["name"] in line.values for line in report.configurations)
    }
    if not searched or len(report.configurations) < 2:
        section.text = [
            "The study has one configuration, so that no hyperparameter varies. "
            f"{MORE_CONFIGURATIONS}"
        ]
        return section
    for name, parameter in searched.items():
        figure = plots.hyperparameter_plot(report.configurations, name, parameter, report.metric)
        caption = f"Validation {report.metric} against {name}: dots are means, dashes are seeds."
        section.plots.append(Plot(f"{results.prefix}score-{name}", caption, figure))
    return section


def _searched(results: StudyResults) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = results.record.identity["space"]["parameters"]
    return found
