"""Tables and texts of comparisons, for the terminal, the report page and the model card."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.markup import escape

from sclsearch.canonical import counted, settings
from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.comparison import (
    WINNERS,
    ConfirmedScore,
    StudyComparison,
    compare_studies,
)
from sclsearch.reports.encoder_costs import costs
from sclsearch.reports.method_comparison import MethodComparison
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.reports.terminal import grid
from sclsearch.reports.words import CONFIGURATION, duration, left_out, with_spread
from sclsearch.selection.significance import ALPHA, Comparison, signed_points, smallest_p
from sclsearch.store.studies import StudyStore, study_names

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

BASELINE = "ce"
COMPARED = ("diff", "95 %", "pairs", "p", "adjusted", "Wilcoxon")
COLUMNS = (
    "95 %: interval of the mean difference for other seeds and, with stored predictions, other "
    "test rows; pairs: number of seeds (seeds with the same training rows are averaged and count "
    "once); p: sign-flip permutation test of the mean difference over seeds; adjusted: p after "
    "Holm's correction for all pairs; Wilcoxon: p of the signed-rank test, as papers print it"
)
"""Meaning of the columns `COMPARED`."""
PAIR = ("better", "other", "difference", "95 % interval", "p (Holm)", "seeds", "clear")


def show_comparison(console: Console, found: StudyComparison) -> None:
    """Print the winners of several studies and the best one minus the others."""
    failed = sum(finished_winner(one).failed for one in found.reports)
    what = (
        f"test {found.metric} on [bold]{escape(found.task)}[/], the winners over the first "
        f"{found.seeds} seeds, {left_out(failed)}"
    )
    if not found.tested:
        what = f"winners on [bold]{escape(found.task)}[/], not compared: {NO_TEST_ROWS}"
    console.print(what, soft_wrap=True)
    # Names stand on lines without wrapping: they may be long, and users copy them.
    for number, one in enumerate(found.studies, 1):
        console.print(f"[bold]{number}[/]  {escape(one.study)}", soft_wrap=True)
    console.print()
    _show_table(console, winner_table(found))
    console.print("\n[bold]Budget[/] of the searches")
    _show_table(console, budget_table(found.reports))
    if found.tested:
        number = found.studies.index(found.ranked[0]) + 1
        console.print(f"\n[bold]{number} minus the others[/], in points")
        cells = difference_table(found)
        order = [found.studies.index(one) + 1 for one in found.ranked[1:]]
        _show_table(console, cells, order)
        show_limits(console, [one.comparison for one in found.pairs])
        console.print(limit_of_winners(found))
    for note in found.notes:
        console.print(f"- {escape(note)}")


def show_methods(console: Console, found: MethodComparison) -> None:
    """Print the winners' mean test scores by task and method, mean ranks, notes and the answer."""
    (cells, _), *_ = paper_tables(found)
    console.print(grid([str(name) for name in cells], cells.to_numpy().tolist()))
    for note in found.notes:
        console.print(f"- {escape(note)}")
    console.print(f"\n{WINNERS}\n")
    console.print(escape(found.answer), style="bold")


def comparison_file(
    found: StudyComparison | MethodComparison, form: Literal["csv", "latex", "md"]
) -> bytes:
    """Return a comparison as a file: one CSV table of numbers, or tables as papers print them."""
    from sclsearch.reports.table import latex, markdown

    if not all(one.has_test for one in found.reports):
        raise SclsearchError(f"--format {form}: there are {NO_TEST_ROWS}. Leave --format out.")
    if form == "csv":
        return found.frame().to_csv(index=False).encode()
    write = latex if form == "latex" else markdown
    return "\n".join(write(*one) for one in paper_tables(found)).encode()


def paper_tables(
    found: StudyComparison | MethodComparison,
) -> "list[tuple[pd.DataFrame, ArrayLike]]":
    """Return tables of text cells, each with True where a cell is bold.

    Several tasks have one table, scores by task and method; one task has its pairs and winners.
    """
    from sclsearch.reports.summary import name_of
    from sclsearch.reports.table import score_in_points as score

    if isinstance(found, MethodComparison):
        rows = [
            [one.task, *(score(study.test_mean, study.test_std) for study in one.studies)]
            for one in found.comparisons
        ]
        rows.append(["mean rank", *(f"{rank:.2f}" for rank in found.ranks)])
        best = [*map(max, found.scores), -min(found.ranks)]
        values = [*found.scores, [-rank for rank in found.ranks]]
        bold = [
            [False, *(one == high for one in row)] for row, high in zip(values, best, strict=True)
        ]
        return [(text_frame(rows, ("task", *found.methods)), bold)]
    names = {one.study: name_of(found, one) for one in found.studies}
    pairs = [
        (
            *(names[one.better], names[one.other], signed_points(one.comparison.difference)),
            *(
                points(one.comparison.interval, " to ") or "–",
                f"{one.adjusted:.3f}",
                one.comparison.n,
            ),
            "yes" if one.clear else "",
        )
        for one in found.pairs
    ]
    winners = [
        (names[one.study], score(one.test_mean, one.test_std), settings(one.values))
        for one in found.ranked
    ]
    kind = "encoder" if found.of_encoders else "method"
    best_mean = found.ranked[0].test_mean
    return [
        (text_frame(pairs, PAIR), [[one.clear] * len(PAIR) for one in found.pairs]),
        (
            text_frame(winners, (kind, f"test {found.metric}", "winner")),
            [[False, one.test_mean == best_mean, False] for one in found.ranked],
        ),
    ]


def _show_table(
    console: Console, cells: "pd.DataFrame", numbers: Sequence[int] | None = None
) -> None:
    order = numbers or range(1, len(cells) + 1)
    numbered = [(str(n), *row[1:]) for n, row in zip(order, cells.values.tolist(), strict=True)]
    console.print(grid(("", *map(str, list(cells)[1:])), numbered))


def text_frame(rows: Iterable[Iterable[object]], columns: Iterable[str]) -> "pd.DataFrame":
    """Return a table of text cells."""
    import pandas as pd

    return pd.DataFrame([[str(cell) for cell in row] for row in rows], columns=list(columns))


def winner_table(found: StudyComparison) -> "pd.DataFrame":
    """Return one row per study: its winner and its test scores; without test rows validation."""
    score = f"{'test' if found.tested else 'validation'} {found.metric}"
    rows = []
    for one in found.studies:
        row = {"study": one.study, "method": one.method}
        if found.of_encoders:
            row = {"study": one.study, "encoder": one.model, **costs(found.report_of(one))}
        mean = one.validation or 0.0 if one.test_mean is None else one.test_mean
        row[score] = with_spread(mean, one.test_std)
        if any(other.confirmed for other in found.studies):
            row["on new seeds"] = _confirmed(one.confirmed)
        values = settings(one.values) or CONFIGURATION[one.repeats]
        rows.append({**row, "winner": f"#{one.number} {values}"})
    return text_frame([one.values() for one in rows], rows[0])


def _confirmed(one: ConfirmedScore | None) -> str:
    return f"{with_spread(one.mean, one.std)} ({counted(one.seeds, 'seed')})" if one else ""


def budget_table(reports: Sequence[Report]) -> "pd.DataFrame":
    """Return one row per study: the budget of its search."""
    rows = [
        (one.study, one.method, len(one.configurations), len(one.seed_runs), duration(one.seconds))
        for one in reports
    ]
    return text_frame(rows, ("study", "method", "configurations", "seed runs", "training time"))


def difference_table(found: StudyComparison) -> "pd.DataFrame":
    """Return one row per study but the best: the best study's score minus its score."""
    heading = ["95 %, search"] if _has_search_interval(found) else []
    best, *others = found.ranked
    rows = []
    for one in others:
        pair = found.pair(best, one)
        difference, interval, *rest = compared(pair.comparison, pair.adjusted)
        search = [points(pair.search_interval)] if heading else []
        rows.append((one.study, one.method, difference, interval, *search, *rest))
    return text_frame(rows, ("study", "method", *COMPARED[:2], *heading, *COMPARED[2:]))


def _has_search_interval(found: StudyComparison) -> bool:
    return any(one.search_interval for one in found.pairs)


def limit_of_winners(found: StudyComparison) -> str:
    """Return what a comparison of winners says about methods, and what its interval includes."""
    searched = _has_search_interval(found)
    return WINNERS + (" 95 %, search: includes the choice of winners." if searched else "")


def compared(comparison: Comparison, adjusted: float) -> tuple[str, ...]:
    """Return the table cells of a comparison, in the order of the headings `COMPARED`."""
    counts = {"equal": comparison.n_equal, "failed": comparison.n_missing}
    return (
        signed_points(comparison.difference),
        points(comparison.interval),
        f"{comparison.n}" + "".join(f", {n} {what}" for what, n in counts.items() if n),
        f"{comparison.p:.3f}",
        f"{adjusted:.3f}",
        f"{comparison.p_wilcoxon:.3f}",
    )


def points(interval: tuple[float, float] | None, between: str = " … ") -> str:
    """Return an interval in points as text, such as `-0.4 … +1.2`; empty without one."""
    return "" if interval is None else between.join(map(signed_points, interval))


def show_limits(console: Console, found: Sequence[Comparison]) -> None:
    """Print the meaning of the comparison columns and the smallest p-value."""
    console.print(COLUMNS, style="dim")
    console.print(limits(found))


def limits(found: Sequence[Comparison]) -> str:
    """Return a sentence with the smallest p-value that the tests can reach."""
    n, rows = max(one.n - one.n_equal for one in found), len(found)
    if not n:
        return "All pairs are equal: there is nothing to test."
    smallest = min(1.0, rows * smallest_p(n))
    pairs = counted(n, "unequal pair" if any(one.n_equal for one in found) else "pair")
    limit = f"With {pairs} the smallest possible {'adjusted ' * (rows > 1)}p is {smallest:.3g}"
    if smallest > ALPHA:
        fewest = math.ceil(math.log2(2 * rows / ALPHA))
        return f"{limit}. A significant difference needs at least {fewest} pairs."
    return f"{limit}."


def comparison_html(found: StudyComparison) -> str:
    """Return the summary of a comparison, and the winners as a table."""
    from sclsearch.reports.summary import summarize_comparison
    from sclsearch.reports.table import summary_html

    return summary_html(summarize_comparison(found), winner_table(found))


def baseline_comparison(found: Report) -> str:
    """Return a paragraph that compares a winner with that of cross-entropy alone.

    The storage may have a finished study of `ce` with the same task, training size, model, protocol
    and test rows.
    """
    if found.method == BASELINE or not found.has_test:
        return ""
    pairs = filter(None, (_with_baseline(found, name) for name in study_names(found.storage)))
    pair = max(pairs, key=lambda one: one.studies[0].seed_runs, default=None)
    if pair is None:
        return (
            f"The storage has no finished study of `{BASELINE}` (cross-entropy alone) for this "
            "task, size, model and protocol to compare with."
        )
    base, test = pair.studies[0], pair.pairs[0]
    one = test.comparison.reversed() if test.better == base.study else test.comparison
    difference, interval, _, p, *_ = compared(one, test.adjusted)
    between = f" (95 % interval {interval})" if interval else ""
    # The messages about damaged files have the paths of this machine.
    notes = "".join(f" {note.text}." for note in pair.notes if note.kind != "damage")
    return (
        f"Against `{base.method}` (study `{base.study}`, test "
        f"{with_spread(base.test_mean or 0.0, base.test_std)}): {difference} points of test "
        f"{found.metric}{between} over {counted(one.n, 'pair')}, p = {p} by the sign-flip "
        f"permutation test.{notes} {WINNERS}"
    )


def _with_baseline(found: Report, name: str) -> StudyComparison | None:
    try:
        record = StudyStore(found.storage, name).record()
        if record is None or record.training["method"] != BASELINE or record.repeats:
            return None
        same = ("task", "size", "model", "protocol")
        if any(record.identity[key] != found.record.identity[key] for key in same):
            return None
        return compare_studies([report(found.storage, name), found])
    except SclsearchError:  # unfinished, damaged, or of other rows
        return None
