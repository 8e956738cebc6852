"""Sections about all studies of the page: answer, comparison, cost, environment, commands."""

from collections.abc import Iterator, Sequence

from sclsearch.canonical import counted, settings
from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.commands import (
    as_setting,
    confirm_command,
    method_option,
    rerun_command,
    search_command,
)
from sclsearch.reports.comparison import StudyComparison, compare_studies, unequal_budgets
from sclsearch.reports.comparison_tables import (
    COLUMNS,
    Rows,
    budget_table,
    compared,
    confirmations,
    difference_table,
    limit_of_winners,
    limits,
    points,
    winner_table,
)
from sclsearch.reports.confirmed import confirmed_score
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.page import winner_plots as plots
from sclsearch.reports.page.content import Plot, Section, Table, cells
from sclsearch.reports.page.results import StudyResults
from sclsearch.reports.report import Report
from sclsearch.reports.terminal import (
    CONFIGURATION,
    duration,
    race_statement,
    rule_in_words,
    seeds_in_words,
    test_result,
    tie_statement,
    with_spread,
)
from sclsearch.store.storage import storage_option


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


def answer(all_results: Sequence[StudyResults]) -> Section:
    """Return the question and the answer of each study, and their comparison."""
    section = Section("answer", "Question and answer")
    for one in all_results:
        section.text += [_question(one.report), " ".join(_answer(one))]
    if len(all_results) > 1:
        found = _comparison(all_results)
        section.text += [found] if isinstance(found, str) else list(_differences(found))
    return section


def _question(report: Report) -> str:
    size = f" with {report.size} training examples" if report.size else ""
    return (
        f"Question ({report.study}): which configuration of {report.method} is best on "
        f"{report.task}{size}, with encoder {report.model} under protocol {report.protocol}?"
        + (f" Search space: {report.space_note}." if report.space_note else "")
    )


def _answer(results: StudyResults) -> Iterator[str]:
    report, winner = results.report, results.winner
    values = settings(winner.values) or CONFIGURATION[report.repeats]
    by = rule_in_words(report.rule.partition("/")[0], report.seeds)
    count = counted(len(report.configurations), "configuration")
    lead = "" if report.lead is None else f", {report.lead:.4f} above the second configuration"
    if tied := tie_statement(report, winner):
        lead = f", {tied}"
    yield (
        f"Of {count}, #{winner.number} ({values}) is the winner: validation {report.metric} "
        f"{winner.score:.4f}, {by}{lead}."
    )
    above = _above(report, winner)
    if report.has_test:
        yield (
            f"Its test {report.metric} is {test_result(winner)}, {seeds_in_words(report, winner)}"
            f"{above}."
        )
    else:
        yield f"There are {NO_TEST_ROWS}."
    if fresh := confirmed_score(report):
        yield (
            f"On {counted(fresh.seeds, 'fresh seed')} it is {with_spread(fresh.mean, fresh.std)} "
            f"({fresh.study})."
        )
    yield race_statement(report)


def _above(report: Report, winner: ConfigurationLine) -> str:
    """Return the difference from the best baseline by test score, over all seeds."""
    scored = [(line.plain[0], line.origin) for line in report.baselines if line.plain is not None]
    if not scored or winner.plain is None:
        return ""
    mean, name = max(scored)
    difference = winner.plain[0] - mean
    return f"; over all seeds it differs by {100 * difference:+.1f} points from the baseline {name}"


def _comparison(all_results: Sequence[StudyResults]) -> StudyComparison | str:
    try:
        return compare_studies([one.report for one in all_results])
    except SclsearchError as error:
        return f"The studies cannot be compared. {error}"


def _differences(found: StudyComparison) -> Iterator[str]:
    first = found.studies[0]
    for one in found.studies[1:]:
        if one.comparison is None or one.adjusted is None:
            continue
        difference, interval, _, _, adjusted, _ = compared(one.comparison, one.adjusted)
        search = points(one.search_interval)
        between = f" (95 % interval {interval})" if interval else ""
        chosen = f" The interval that includes the choice of winners is {search}." if search else ""
        yield (
            f"The winner of {one.study} differs from that of {first.study} by {difference} points "
            f"of test {found.metric}{between}, over {counted(one.comparison.n, 'pair')}; adjusted "
            f"p = {adjusted}.{chosen}"
        )


def comparison(all_results: Sequence[StudyResults]) -> Section:
    """Return the paired comparison of the winners, as `compare` prints it, with a forest plot."""
    section = Section("comparison", "Paired comparison of the winners")
    found = _comparison(all_results)
    if isinstance(found, str):
        section.text = [found]
        return section
    if not found.tested:
        section.text = [f"The studies have {NO_TEST_ROWS}, so the winners are not compared."]
        section.notes = list(found.notes)
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
    section.notes = [*found.notes, *([sentence] if sentence else [])]
    searches = [one.search_interval for one in others]
    thin = " Thin line: 95 % interval that includes the choice of winners." if any(searches) else ""
    names = [one.study for one in found.studies]
    caption = f"Difference from {first.study}. Thick line: 95 % interval.{thin}"
    figure = plots.forest_plot(names[1:], comparisons, searches, found.metric)
    section.plots = [Plot("comparison", caption, figure)]
    section.tables = [
        _table("winners", "Winners and their test scores.", names, *winner_table(found)),
        _table("comparison", f"{COLUMNS}.", names[1:], *difference_table(found)),
    ]
    return section


def _table(
    name: str, caption: str, studies: Sequence[str], headings: Sequence[str], rows: Rows
) -> Table:
    """Return a table with the name of each study as its first column."""
    named = [(study, *row) for study, row in zip(studies, rows, strict=True)]
    return Table(name, caption, cells(named, ("study", *headings)))


def budget(all_results: Sequence[StudyResults]) -> Section:
    """Return the search budget of each study, with a warning if the budgets differ."""
    section = Section("budget", "Budget audit")
    reports = [one.report for one in all_results]
    unequal = unequal_budgets(reports)
    section.text = [
        f"Warning: unequal budgets: {', '.join(unequal)}. A larger search tends to find a "
        "better winner; compare searches of equal budgets."
        if unequal
        else "All studies have equal budgets."
    ]
    names = [report.study for report in reports]
    section.tables = [_table("budget", "Budget of each study.", names, *budget_table(reports))]
    return section


def cost(all_results: Sequence[StudyResults]) -> Section:
    """Return seed runs and hours of training, and what a race saved."""
    section = Section("cost", "Cost")
    rows = []
    for one in all_results:
        total = len(one.report.configurations) * one.report.seeds
        trained = len(one.runs)
        mean = one.seconds / trained
        left, left_seconds = total - trained, (total - trained) * mean
        rows.append(
            [
                one.report.study,
                f"{trained} of {total}",
                sum(line.failed for line in one.report.configurations),
                f"{one.seconds / 3600:.2f}",
                f"{mean:.1f}",
                left,
                f"{left_seconds / 3600:.2f}",
            ]
        )
        if left:
            section.text.append(
                f"{one.report.study}: {left} of {total} seed runs were not trained, about "
                f"{duration(left_seconds)} at the mean time. A race skips seed runs of losing "
                "configurations; the same command with --race off trains them."
            )
    header = ("study", "seed runs", "failed", "hours", "seconds each", "not trained")
    caption = (
        "Training time is wall-clock time of each seed run, summed. The last column estimates the "
        "hours of the seed runs that were not trained, at the mean time."
    )
    section.tables = [Table("cost", caption, cells(rows, (*header, "hours of these")))]
    return section


def environment(all_results: Sequence[StudyResults]) -> Section:
    """Return the software, the machines and the hashes behind the results."""
    section = Section("environment", "Environment and hashes")
    for one in all_results:
        caption = f"{one.report.study}. A hash is SHA-256."
        table = cells(_environment(one), ("what", "value"))
        section.tables.append(Table(f"{one.prefix}environment", caption, table))
    return section


def _environment(results: StudyResults) -> Iterator[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for run in results.runs.values():
        parts = {**run.environment, **run.environment.get("packages", {})}
        for name, value in parts.items():
            if name not in {"packages", "pid"} and value is not None:
                found.setdefault(name, []).append(str(value))
    yield from ((name, ", ".join(sorted(set(values)))) for name, values in sorted(found.items()))
    record = results.record
    yield from (
        (f"study: {name}", as_setting(value)) for name, value in sorted(record.training.items())
    )
    for number, rows in enumerate(results.report.rows):
        yield f"rows of seed {number}", " ".join(f"{kind}={rows[kind][:12]}" for kind in rows)
    for seed in results.winner.seeds:
        yield f"seed run key, winner, seed {seed.replicate}", seed.key


def commands(all_results: Sequence[StudyResults], rule: str | None) -> Section:
    """Return the commands that repeat the searches, the winners and this page."""
    section = Section("commands", "Commands that repeat it")
    section.text = [
        "A search resumes from the stored seed runs; in a new --storage it trains again. `rerun` "
        "trains one seed run again and compares it bit for bit. If the search had a space file of "
        "its own or another race, add `--space FILE` or `--race BAND`."
    ]
    for one in all_results:
        best = one.winner.seeds[one.winner.reported[0]]
        section.commands += [
            *([] if one.report.repeats else [search_command(one.report, one.record)]),
            rerun_command(one.report, best.key),
            *(
                [confirm_command(one.report)]
                if one.report.has_test and not one.report.repeats
                else []
            ),
        ]
    names = " ".join(one.report.study for one in all_results)
    chosen = "" if rule is None else f" --rule {rule}"
    method = next(filter(None, (method_option(one.report) for one in all_results)), "")
    option = storage_option(all_results[0].report.storage)
    section.commands.append(f"sclsearch report {names}{chosen}{method}{option} --output FOLDER")
    return section
