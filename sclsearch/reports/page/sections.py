"""Sections of the page on the search of each study, and on all studies together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.commands import (
    as_setting,
    confirm_command,
    method_option,
    rerun_command,
    search_command,
)
from sclsearch.reports.comparison import (
    StudyComparison,
    compare_studies,
    confirmed_score,
    unequal_budgets,
)
from sclsearch.reports.comparison_tables import (
    COLUMNS,
    budget_table,
    confirmations,
    difference_in_words,
    difference_table,
    limit_of_winners,
    limits,
    points,
    text_frame,
    winner_table,
)
from sclsearch.reports.page import plots
from sclsearch.reports.page.plots import Plot, Section, Table
from sclsearch.reports.report import ConfigurationLine, Report, tested_winner
from sclsearch.reports.table import stored_seed_runs
from sclsearch.reports.terminal import (
    answer_sentences,
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
from sclsearch.store.storage import storage_option
from sclsearch.store.studies import StudyRecord, existing_study

if TYPE_CHECKING:
    import pandas as pd

MOST = 20
"""Number of configurations in the ranking on the page."""
KINDS = {
    "mean": "score to expect of one training",
    "top-3": "score to expect of the 3 best of all seeds by validation",
    "best": "score of the best of all seeds by validation: one value, without a spread",
}


@dataclass(frozen=True)
class StudyResults:
    """Report of a study with the stored results behind it, read once for all sections.

    `runs` are the seed runs of all configurations without their predictions, by key. `prefix` is
    that of anchors and file names; it is empty if the page has only one study.
    """

    report: Report
    record: StudyRecord
    winner: ConfigurationLine
    runs: Mapping[str, SeedRun]
    prefix: str

    @cached_property
    def predictions(self) -> "pd.DataFrame":
        return replace(self.report, configurations=(self.winner,)).predictions()

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, self.record.origin.get("labels", ())))


def read_results(report: Report, prefix: str) -> StudyResults:
    """Return the results of a study."""
    winner = tested_winner(report)
    _, record = existing_study(report.storage, report.study)
    # Predictions of thousands of seed runs would fill the memory.
    runs = {run.key: replace(run, predictions={}) for _, _, run in stored_seed_runs(report)}
    return StudyResults(report, record, winner, runs, prefix)


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
            "the metric's minimum in the score.",
            race_statement(report),
        ],
        [note for note in report.notes if note.kind != "seeds"],
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


def reported_scores(results: StudyResults) -> Section:
    """Return the winner's test score as the papers report it: mean, top 3 and best seed."""
    report, winner = results.report, results.winner
    validation = [seed.validation for seed in winner.seeds]
    tests = [seed.test for seed in winner.seeds]
    own = str(parse_rule(report.rule).report)
    rows = []
    for name in dict.fromkeys((*KINDS, own)):
        rule = parse_rule(name)
        if name != own and rule.least > winner.succeeded:
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
    text = (
        f"The validation rows chose the configuration and the seeds. {report.choice} "
        "The seeds that chose the configuration also give these scores. `sclsearch confirm` "
        "repeats the winner on new seeds, without selection bias."
    )
    table = Table(f"{results.prefix}test", caption, text_frame(rows, header))
    return Section(table.name, "Test score as papers report it", [text], tables=[table])


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
    lines, metric = results.report.configurations, results.report.metric
    section = Section(f"{results.prefix}hyperparameters", "Score against hyperparameters")
    for parameter in results.record.identity["space"]["parameters"] if len(lines) > 1 else ():
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


def title(all_results: Sequence[StudyResults]) -> str:
    """Return the title of the page."""
    methods = " and ".join(dict.fromkeys(one.report.method for one in all_results))
    tasks = ", ".join(dict.fromkeys(one.report.task for one in all_results))
    return f"{methods} on {tasks}"


def verdicts(all_results: Sequence[StudyResults]) -> list[tuple[str, ...]]:
    """Return the lines of each verdict on a useless winner."""
    several = len(all_results) > 1
    return [
        (f"{report.study}: {first}" if several else first, *rest)
        for report in (one.report for one in all_results)
        if report.verdict is not None
        for first, *rest in [report.verdict.lines]
    ]


def answer(
    all_results: Sequence[StudyResults], compared: StudyComparison | str | None = None
) -> Section:
    """Return the question and the answer of each study, and their comparison, if any."""
    section = Section("answer", "Question and answer")
    for report in (one.report for one in all_results):
        fresh = confirmed_score(report)
        confirmed = []
        if fresh is not None:
            score = f"{with_spread(fresh.mean, fresh.std)} ({fresh.study})"
            confirmed = [f"On {counted(fresh.seeds, 'fresh seed')} it is {score}."]
        found = [*answer_sentences(report), *confirmed, race_statement(report)]
        section.text += [_question(report), " ".join(found)]
    if compared is not None:
        section.text += [compared] if isinstance(compared, str) else _differences(compared)
    return section


def _question(report: Report) -> str:
    size = f" with {report.size} training examples" if report.size else ""
    return (
        f"Question ({report.study}): which configuration of {report.method} is best on "
        f"{report.task}{size}, with encoder {report.model} under protocol {report.protocol}?"
        + (f" Search space: {report.space_note}." if report.space_note else "")
    )


def compare_results(all_results: Sequence[StudyResults]) -> StudyComparison | str:
    """Return the comparison of the studies, or why there is none."""
    try:
        return compare_studies([one.report for one in all_results])
    except SclsearchError as error:
        return f"The studies cannot be compared. {error}"


def _differences(found: StudyComparison) -> Iterator[str]:
    first, *others = found.studies
    for one in others if found.tested else ():
        search = points(one.search_interval)
        chosen = f" The interval that includes the choice of winners is {search}." if search else ""
        yield (
            f"The winner of {one.study} differs from that of {first.study} by "
            f"{difference_in_words(found, one)}.{chosen}"
        )


def comparison(found: StudyComparison | str) -> Section:
    """Return the paired comparison of the winners, as `compare` prints it, with a forest plot."""
    section = Section("comparison", "Paired comparison of the winners")
    if isinstance(found, str):
        section.text = [found]
        return section
    if not found.tested:
        section.text = [f"The studies have {NO_TEST_ROWS}, so the winners are not compared."]
        section.notes = found.notes
        return section
    first, *others = found.studies
    comparisons = [one.comparison for one in others if one.comparison is not None]
    sentence, section.commands = confirmations(found)
    section.text = [
        f"Test {found.metric} over the first {counted(found.seeds, 'seed')} of each study, paired "
        f"by seed, none left out; differences from {first.study} in points.",
        limits(comparisons),
        limit_of_winners(found),
    ]
    section.notes = [*found.notes, *filter(None, [sentence])]
    searches = [one.search_interval for one in others]
    thin = " Thin line: 95 % interval that includes the choice of winners." if any(searches) else ""
    caption = f"Difference from {first.study}. Thick line: 95 % interval.{thin}"
    names = [one.study for one in others]
    figure = plots.forest_plot(names, comparisons, searches, found.metric)
    section.plots = [Plot("comparison", caption, figure)]
    section.tables = [
        Table("winners", "Winners and their test scores.", winner_table(found)),
        Table("comparison", f"{COLUMNS}.", difference_table(found)),
    ]
    return section


def budget(all_results: Sequence[StudyResults]) -> Section:
    """Return the search budget of each study, with a warning if the budgets differ."""
    reports = [one.report for one in all_results]
    unequal = unequal_budgets(reports)
    text = (
        f"Warning: unequal budgets: {', '.join(unequal)}. A larger search tends to find a "
        "better winner; compare searches of equal budgets."
        if unequal
        else "All studies have equal budgets."
    )
    table = Table("budget", "Budget of each study.", budget_table(reports))
    return Section("budget", "Budget audit", [text], tables=[table])


def cost(all_results: Sequence[StudyResults]) -> Section:
    """Return seed runs and hours of training, and what a race saved."""
    section, rows = Section("cost", "Cost"), []
    for one in all_results:
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


def environment(all_results: Sequence[StudyResults]) -> Section:
    """Return the software, the machines and the hashes behind the results."""
    tables = [
        Table(
            f"{one.prefix}environment",
            f"{one.report.study}. A hash is SHA-256.",
            text_frame(_environment(one), ("what", "value")),
        )
        for one in all_results
    ]
    return Section("environment", "Environment and hashes", tables=tables)


def _environment(results: StudyResults) -> Iterator[tuple[str, str]]:
    found: dict[str, set[str]] = {}
    for run in results.runs.values():
        parts = {**run.environment, **run.environment.get("packages", {})}
        for name, value in parts.items():
            if name not in {"packages", "pid"} and value is not None:
                found.setdefault(name, set()).add(str(value))
    yield from ((name, ", ".join(sorted(values))) for name, values in sorted(found.items()))
    for name, value in sorted(results.record.training.items()):
        yield f"study: {name}", as_setting(value)
    for number, rows in enumerate(results.report.rows):
        yield f"rows of seed {number}", " ".join(f"{kind}={rows[kind][:12]}" for kind in rows)
    for seed in results.winner.seeds:
        yield f"seed run key, winner, seed {seed.replicate}", seed.key


def commands(all_results: Sequence[StudyResults], rule: str | None) -> Section:
    """Return the commands that repeat the searches, the winners and this page."""
    text = (
        "A search resumes from the stored seed runs; in a new --storage it trains again. `rerun` "
        "trains one seed run again and compares it bit for bit. If the search had a space file of "
        "its own or another race, add `--space FILE` or `--race BAND`."
    )
    section = Section("commands", "Commands that repeat it", [text])
    for one in all_results:
        report, best = one.report, one.winner.seeds[one.winner.reported[0]]
        if not report.repeats:
            section.commands.append(search_command(report, one.record))
        section.commands.append(rerun_command(report, best.key))
        if report.has_test and not report.repeats:
            section.commands.append(confirm_command(report))
    names = " ".join(one.report.study for one in all_results)
    chosen = "" if rule is None else f" --rule {rule}"
    method = next(filter(None, (method_option(one.report) for one in all_results)), "")
    option = storage_option(all_results[0].report.storage)
    section.commands.append(f"sclsearch report {names}{chosen}{method}{option} --output FOLDER")
    return section
