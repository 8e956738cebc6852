"""Tables and texts of comparisons, for the terminal, the report page and the model card."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.markup import escape

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.comparison import WINNERS, StudyComparison
from sclsearch.reports.encoder_costs import costs
from sclsearch.reports.method_comparison import MethodComparison
from sclsearch.reports.report import Report, finished_winner
from sclsearch.reports.terminal import grid
from sclsearch.reports.words import duration, left_out, values_of, with_spread
from sclsearch.selection.significance import Comparison, signed_points

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

COMPARED = ("diff", "95 %", "pairs", "p", "adjusted")
COLUMNS = (
    "95 %: interval of the mean difference for other seeds and, with stored predictions, other "
    "test rows; 95 %, search: also for other winners of the searches; pairs: number of seeds "
    "(seeds with the same training rows are averaged and count once); p: sign-flip permutation "
    "test of the mean difference over seeds; adjusted: p after Holm's correction for all pairs"
)
"""Meaning of the columns `COMPARED`."""
PAIR = ("better", "other", "difference (points)", "95 % (points)", "p (Holm)", "seeds", "clear")


def show_comparison(console: Console, found: StudyComparison) -> None:
    """Print the winners of several studies and the best one minus the others."""
    failed = sum(finished_winner(one).failed for one in found.reports)
    what = (
        f"{found.tested_on} {found.metric} on [bold]{escape(found.task)}[/], the winners over the "
        f"first {found.seeds} seeds, {left_out(failed)}"
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
        console.print(COLUMNS, style="dim")
        console.print(WINNERS)
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
    from sclsearch.reports.table import as_csv, latex, markdown

    if not all(one.has_test for one in found.reports):
        raise SclsearchError(f"--format {form}: there are {NO_TEST_ROWS}. Leave --format out.")
    if form == "csv":
        return as_csv(found.frame())
    write = latex if form == "latex" else markdown
    start = "%" if form == "latex" else "-"
    notes = "".join(f"{start} {note}\n" for note in found.notes)
    parts = [*(write(*one) for one in paper_tables(found)), notes]
    return "\n".join(filter(None, parts)).encode()


def paper_tables(
    found: StudyComparison | MethodComparison,
) -> "list[tuple[pd.DataFrame, ArrayLike]]":
    """Return tables of text cells, each with True where a cell is bold: clear differences.

    Several tasks have one table, scores by task and method; one task has its pairs and winners.
    """
    import numpy as np

    from sclsearch.reports.table import score_in_points

    if isinstance(found, MethodComparison):
        rows = [
            [one.task, *(score_in_points(each.test_mean, each.test_std) for each in one.studies)]
            for one in found.comparisons
        ]
        rows.append(["mean rank", *(f"{rank:.2f}" for rank in found.ranks)])
        bold = [[one is each.clearly_best for one in each.studies] for each in found.comparisons]
        clear = len(found.worse) == len(found.methods) - 1  # the first one is reliably better
        bold.append([clear, *(False for _ in found.methods[1:])])
        columns = [*found.frame()]
        return [(text_frame(rows, columns), np.pad(bold, ((0, 0), (1, 0))))]
    names = {one.study: one.name for one in found.studies}
    pairs = [
        (
            *(names[one.better], names[one.other], signed_points(one.comparison.difference)),
            points(one.comparison.interval, " to ") or "–",
            *(f"{one.adjusted:.3f}", one.comparison.n, "yes" if one.clear else ""),
        )
        for one in found.pairs
    ]
    winners = winner_table(found)
    score = winners.columns == f"{found.tested_on} {found.metric}"
    return [
        (text_frame(pairs, PAIR), [[one.clear] * len(PAIR) for one in found.pairs]),
        (winners, np.outer([one is found.clearly_best for one in found.studies], score)),
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
    score = f"{found.tested_on if found.tested else 'validation'} {found.metric}"
    rows = []
    for one in found.studies:
        row = {"study": one.study, "method": one.report.method}
        if found.of_encoders:
            row = {"study": one.study, "encoder": one.report.encoder, **costs(one.report)}
        row[score] = with_spread(one.score, one.test_std)
        if any(other.report.estimate for other in found.studies):
            row["estimated on new texts"] = str(one.report.estimate or "")
        if any(other.confirmed for other in found.studies):
            row["on new seeds"] = str(one.confirmed or "")
        winner = f"#{one.winner.number} {values_of(one.report, one.winner)}"
        rows.append({**row, "winner": winner})
    return text_frame([one.values() for one in rows], rows[0])


def budget_table(reports: Sequence[Report]) -> "pd.DataFrame":
    """Return one row per study: the budget of its search."""
    rows = [
        (one.study, one.method, len(one.configurations), len(one.seed_runs), duration(one.seconds))
        for one in reports
    ]
    return text_frame(rows, ("study", "method", "configurations", "seed runs", "training time"))


def difference_table(found: StudyComparison) -> "pd.DataFrame":
    """Return one row per study but the best: the best study's score minus its score."""
    heading = ["95 %, search"] if any(one.search_interval for one in found.pairs) else []
    best, *others = found.ranked
    rows = []
    for one in others:
        pair = found.pair(best, one)
        difference, interval, *rest = compared(pair.comparison, pair.adjusted)
        search = [points(pair.search_interval)] if heading else []
        rows.append((one.study, one.report.method, difference, interval, *search, *rest))
    return text_frame(rows, ("study", "method", *COMPARED[:2], *heading, *COMPARED[2:]))


def compared(comparison: Comparison, adjusted: float) -> tuple[str, ...]:
    """Return the table cells of a comparison, in the order of the headings `COMPARED`."""
    counts = {"equal": comparison.n_equal, "failed": comparison.n_missing}
    return (
        signed_points(comparison.difference),
        points(comparison.interval),
        f"{comparison.n}" + "".join(f", {n} {what}" for what, n in counts.items() if n),
        f"{comparison.p:.3f}",
        f"{adjusted:.3f}",
    )


def points(interval: tuple[float, float] | None, between: str = " … ") -> str:
    """Return an interval in points as text, such as `-0.4 … +1.2`; empty without one."""
    return "" if interval is None else between.join(map(signed_points, interval))
