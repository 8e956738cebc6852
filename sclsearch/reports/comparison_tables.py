"""Tables and texts of comparisons, for the terminal, the report page and the model card."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from sclsearch.canonical import counted, settings
from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.commands import confirm_command
from sclsearch.reports.comparison import (
    WINNERS,
    ComparedStudy,
    StudyComparison,
    compare_studies,
    trained_seed_runs,
    training_seconds,
)
from sclsearch.reports.report import Report, report
from sclsearch.reports.terminal import CONFIGURATION, duration, grid, with_spread
from sclsearch.selection.significance import ALPHA, Comparison, smallest_p
from sclsearch.store.storage import Storage, storage_option
from sclsearch.store.studies import StudyRecord, StudyStore, study_names

BASELINE = "ce"
Rows = list[tuple[str, ...]]

COMPARED = ("diff", "95 %", "pairs", "p", "adjusted", "Wilcoxon")
COLUMNS = (
    "95 %: interval of the mean difference; pairs: seeds, or means of seeds with one training "
    "subset where it is one of several; p: sign-flip permutation test of the mean difference; "
    "adjusted: p for all rows here, by Holm; Wilcoxon: p of the signed-rank test, as papers print"
)
"""Meaning of the columns `COMPARED`."""


def show_comparison(console: Console, found: StudyComparison) -> None:
    """Print the winners of several studies and their differences from the first winner."""
    what = (
        f"test {found.metric} on [bold]{escape(found.task)}[/], the winners over the first "
        f"{found.seeds} seeds, none left out"
    )
    if not found.tested:
        what = f"winners on [bold]{escape(found.task)}[/], not compared: {NO_TEST_ROWS}"
    console.print(what, soft_wrap=True)
    # Names stand on lines without wrapping: they may be long, and users copy them.
    for number, one in enumerate(found.studies, 1):
        console.print(f"[bold]{number}[/]  {escape(one.study)}", soft_wrap=True)
    console.print()
    _show_table(console, *winner_table(found))
    console.print("\n[bold]Budget[/] of the searches")
    _show_table(console, *budget_table(found.reports))
    if found.tested:
        console.print("\n[bold]Against 1[/], in points")
        _show_table(console, *difference_table(found), first=2)
        pairs = [one.comparison for one in found.studies if one.comparison is not None]
        show_limits(console, pairs)
        console.print(limit_of_winners(found))
    sentence, commands = confirmations(found)
    if sentence:
        console.print(sentence)
    for command in commands:
        console.print(f"  {escape(command)}", soft_wrap=True, highlight=False)
    for note in found.notes:
        console.print(f"- {escape(note)}")


def _show_table(console: Console, headings: Sequence[str], rows: Rows, first: int = 1) -> None:
    """Print a table with the number of each study as its first column."""
    numbered = [(str(number), *row) for number, row in enumerate(rows, first)]
    console.print(grid(("", *headings), numbered))


def winner_table(found: StudyComparison) -> tuple[Sequence[str], Rows]:
    """Return headings and one row per study: its winner and its test scores."""
    fresh = ["on fresh seeds"] if any(one.confirmed for one in found.studies) else []
    rows: Rows = [
        (
            one.method,
            _score(one),
            *([_confirmed(one)] if fresh else []),
            f"#{one.number} {settings(one.values) or CONFIGURATION[one.repeats]}",
        )
        for one in found.studies
    ]
    score = f"{'test' if found.tested else 'validation'} {found.metric}"
    return ("method", score, *fresh, "winner"), rows


def _score(one: ComparedStudy) -> str:
    """Return the test score; without test rows the validation score."""
    if one.test_mean is None:
        return f"{one.validation:.4f}"
    return with_spread(one.test_mean, one.test_std)


def _confirmed(one: ComparedStudy) -> str:
    if one.confirmed is None:
        return ""
    score = with_spread(one.confirmed.mean, one.confirmed.std)
    return f"{score} ({counted(one.confirmed.seeds, 'seed')})"


def budget_table(reports: Sequence[Report]) -> tuple[Sequence[str], Rows]:
    """Return headings and one row per study: the budget of its search."""
    rows: Rows = [
        (
            one.method,
            str(len(one.configurations)),
            str(len(trained_seed_runs(one))),
            duration(training_seconds(one)),
        )
        for one in reports
    ]
    return ("method", "configurations", "seed runs", "training time"), rows


def difference_table(found: StudyComparison) -> tuple[Sequence[str], Rows]:
    """Return headings and one row per study but the first: its difference from the first."""
    heading = ["95 %, search"] if _has_search_interval(found) else []
    rows: Rows = []
    for one in found.studies[1:]:
        if one.comparison is not None and one.adjusted is not None:
            difference, interval, *rest = compared(one.comparison, one.adjusted)
            search = [points(one.search_interval)] if heading else []
            rows.append((one.method, difference, interval, *search, *rest))
    return ("method", *COMPARED[:2], *heading, *COMPARED[2:]), rows


def _has_search_interval(found: StudyComparison) -> bool:
    return any(one.search_interval for one in found.studies)


def limit_of_winners(found: StudyComparison) -> str:
    """Return what a comparison of winners says about methods, and what its interval includes."""
    searched = _has_search_interval(found)
    return WINNERS + (" 95 %, search: includes the choice of winners." if searched else "")


def confirmations(found: StudyComparison) -> tuple[str, list[str]]:
    """Return a sentence and the commands that test the winners on fresh seeds.

    If all winners have such tests, the command compares these. Both are empty if there is no
    command.
    """
    if not found.tested:
        return "", []
    fresh = [one.confirmed.study for one in found.studies if one.confirmed is not None]
    verb = "Test"
    commands = [
        confirm_command(report)
        for one, report in zip(found.studies, found.reports, strict=True)
        if not one.repeats and one.confirmed is None
    ]
    if len(fresh) == len(found.studies):
        where = storage_option(found.reports[0].storage)
        verb, commands = "Compare", [f"sclsearch compare {' '.join(fresh)}{where}"]
    if not commands:
        return "", []
    return (
        f"Scores on the seeds that chose the winner are too high. {verb} on fresh seeds:",
        commands,
    )


def compared(comparison: Comparison, adjusted: float) -> tuple[str, ...]:
    """Return the table cells of a comparison, in the order of the headings `COMPARED`."""
    return (
        f"{100 * comparison.difference:+.1f}",
        points(comparison.interval),
        f"{comparison.n}{f', {comparison.n_equal} equal' if comparison.n_equal else ''}",
        f"{comparison.p:.3f}",
        f"{adjusted:.3f}",
        f"{comparison.p_wilcoxon:.3f}",
    )


def points(interval: tuple[float, float] | None) -> str:
    """Return an interval in points as text, such as `-0.4 … +1.2`; empty without one."""
    return "" if interval is None else f"{100 * interval[0]:+.1f} … {100 * interval[1]:+.1f}"


def show_limits(console: Console, found: Sequence[Comparison]) -> None:
    """Print the meaning of the comparison columns and the smallest p-value."""
    console.print(COLUMNS, style="dim")
    console.print(limits(found))


def limits(found: Sequence[Comparison]) -> str:
    """Return a sentence with the smallest p-value of the tests."""
    n, rows = max(one.n - one.n_equal for one in found), len(found)
    if not n:
        return "All pairs are equal: there is nothing to test."
    smallest = min(1.0, rows * smallest_p(n))
    pairs = counted(n, "unequal pair" if any(one.n_equal for one in found) else "pair")
    limit = f"{pairs} cannot go below {'adjusted ' * (rows > 1)}p = {smallest:.3g}"
    if smallest > ALPHA:
        fewest = math.ceil(math.log2(2 * rows / ALPHA))
        return f"{limit}: too few to show a difference at {ALPHA:g}, which takes {fewest}."
    return f"{limit}."


def baseline_comparison(found: Report, study: StudyRecord, storage: Storage) -> str:
    """Return a paragraph that compares a winner with that of cross-entropy alone.

    The storage may have a finished study of `ce` with the same task, training size, model, protocol
    and test rows.
    """
    if found.method == BASELINE or not found.has_test:
        return ""
    names = study_names(storage)
    baselines = [one for name in names if (one := _with_baseline(found, study, storage, name))]
    if not baselines:
        return (
            f"The storage has no finished study of `{BASELINE}` (cross-entropy alone) for this "
            "task, size, model and protocol to compare with."
        )
    return _paragraph(max(baselines, key=lambda one: len(trained_seed_runs(one.reports[0]))))


def _with_baseline(
    found: Report, study: StudyRecord, storage: Storage, name: str
) -> StudyComparison | None:
    """Return the comparison of a study's winner with ours; None if the study is no baseline."""
    try:
        record = StudyStore(storage, name).record()
        if record is None or record.training["method"] != BASELINE or record.repeats:
            return None
        same = ("task", "size", "model", "protocol")
        if any(record.identity[key] != study.identity[key] for key in same):
            return None
        return compare_studies([report(storage, name), found])
    except SclsearchError:  # unfinished, damaged, or of other rows
        return None


def _paragraph(pair: StudyComparison) -> str:
    base, own = pair.studies
    found = own.comparison
    assert found is not None
    assert base.test_mean is not None
    interval = ""
    if found.interval is not None:
        low, high = (f"{100 * bound:+.1f}" for bound in found.interval)
        interval = f" (95 % interval {low} to {high})"
    # The messages about damaged files have the paths of this machine.
    local = tuple(message for one in pair.reports for message in one.damaged)
    notes = "".join(f" {note}." for note in pair.notes if not note.endswith(local))
    return (
        f"Against `{base.method}` (study `{base.study}`, test "
        f"{with_spread(base.test_mean, base.test_std)}): {100 * found.difference:+.1f} points"
        f"{interval} over {counted(found.n, 'pair')}, p = {found.p:.3f} by the "
        f"sign-flip permutation test.{notes} {WINNERS}"
    )
