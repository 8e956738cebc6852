"""Our figures beside the published ones, as text of 80 columns."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from sclsearch.reports.terminal import figure
from sclsearch.reproduce.again import Confirmation
from sclsearch.reproduce.base import SCALES, Table
from sclsearch.reproduce.figures import Figure, Work, pairs
from sclsearch.reproduce.plan import PlannedCell
from sclsearch.selection.significance import detectable, detection
from sclsearch.selection.variance import Spread

SEEDS_OF_PAPERS = 10


def show_work(
    console: Console, works: Sequence[tuple[PlannedCell, Work]], planned: Sequence[PlannedCell]
) -> None:
    """Prints the studies of some cells, their seed runs and how long they may take."""
    grid = _grid("condition", "row", "task", "seed runs", "missing", "time")
    for one, work in works:
        cell = one.cell
        time = "unknown" if work.seconds is None else f"{work.seconds / 60:.0f} min"
        numbers = (str(work.seed_runs), str(work.missing), time)
        grid.add_row(
            escape(cell.block.name),
            escape(cell.row.name),
            escape(cell.column.task or ""),
            *(("", "", escape(work.reason)) if work.reason else numbers),
        )
    console.print(grid)
    runs = sum(work.seed_runs for _, work in works)
    missing = sum(work.missing for _, work in works)
    console.print(
        f"\n{len(planned)} cells, {len(works)} studies, {runs} seed runs, {missing} of them to "
        "train. Times are one after the other, by stored seed runs of the method."
    )
    _show_reasons(console, {one.reason for one in planned if one.reason})


def show_figures(console: Console, table: Table, figures: Sequence[Figure]) -> None:
    """Prints each figure beside the published one, comparisons of rows, and what to know."""
    console.print(f"[bold]{table.name}[/] {escape(table.title)}", soft_wrap=True)
    console.print(f"published: {escape(table.figure)}\n", soft_wrap=True)
    grid = _grid("condition", "row", "column", "ours", "published", "difference", "seeds")
    for one in figures:
        if one.mean is not None:
            grid.add_row(*_cells(table, one))
    console.print(grid)
    _show_pairs(console, figures)
    notes = dict.fromkeys(note for one in figures for note in one.notes)
    console.print("\n[bold]Why they may differ[/]")
    for note in (*notes, *table.notes):
        console.print(f"- {escape(note)}", soft_wrap=True)
    _show_reasons(console, {one.reason for one in figures if one.reason})


def show_confirmation(console: Console, found: Confirmation) -> None:
    """Prints a winner's figure as it was chosen, over all its seeds, and on fresh ones."""
    winner, again = found.chosen.winner, found.fresh.winner
    if winner is None or again is None:
        console.print("The fresh replicates are not finished.")
        return
    metric = found.chosen.metric
    mean, std = found.plain
    spread = "" if std is None else f" ± {std:.4f}"
    console.print(f"[bold]Winner #{winner.number}[/] of {found.chosen.study}, test {metric}")
    console.print(f"  as chosen      {figure(winner)}, rule {found.chosen.rule}")
    console.print(f"  all its seeds  {mean:.4f}{spread}, {found.chosen.seeds} seeds")
    console.print(f"  fresh seeds    {figure(again)}, {found.fresh.seeds} that did not choose it")


def show_spread(console: Console, study: str, spread: Spread) -> None:
    """Prints where the spread of a configuration comes from, and what seeds can detect."""
    console.print(
        f"[bold]{escape(study)}[/], its winner: {spread.runs} seed runs, mean test figure "
        f"{spread.mean:.4f}",
        soft_wrap=True,
    )
    grid = _grid("source", "share", "standard deviation")
    for name, component in spread.components.items():
        grid.add_row(name, f"{100 * spread.share(name):.0f} %", f"{component.variance**0.5:.4f}")
    grid.add_row("together", "", f"{spread.total.variance**0.5:.4f}")
    console.print(grid)
    for note in spread.notes:
        console.print(f"- {note}", soft_wrap=True)
    sentence = detection(SEEDS_OF_PAPERS, spread.detectable(SEEDS_OF_PAPERS))
    console.print(f"{sentence} between two such configurations.")


def _grid(*headings: str) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        grid.add_column(heading, overflow="fold")
    return grid


def _cells(table: Table, one: Figure) -> tuple[str, ...]:
    value, std = table.as_metric(one.cell)
    mean = one.mean or 0.0
    return (
        escape(one.cell.block.name),
        escape(one.cell.row.name),
        escape(one.cell.column.name),
        _percent(mean, one.std),
        _percent(value, std),
        f"{100 * (mean - value):+.1f}",
        f"{sum(test is not None for test in one.tests)}/{one.seeds}",
    )


def _percent(value: float, std: float | None) -> str:
    scale = SCALES["percent"]
    return f"{scale * value:.1f}" + ("" if std is None else f" ± {scale * std:.1f}")


def _show_pairs(console: Console, figures: Sequence[Figure]) -> None:
    found = pairs(figures)
    if not found:
        return
    console.print("\n[bold]Rows against the first, paired by replicate[/] (points, Wilcoxon, Holm)")
    grid = _grid("condition", "column", "row", "difference", "95 % interval", "p", "adjusted")
    for pair in found:
        comparison = pair.comparison
        low, high = comparison.interval or (None, None)
        interval = "" if low is None or high is None else f"{100 * low:+.1f} … {100 * high:+.1f}"
        grid.add_row(
            escape(pair.ours.block.name),
            escape(pair.ours.column.name),
            f"{escape(pair.ours.row.name)} - {escape(pair.base.row.name)}",
            f"{100 * comparison.difference:+.1f}",
            interval,
            f"{comparison.p:.3f}",
            f"{pair.adjusted:.3f}",
        )
    console.print(grid)
    n = max(pair.comparison.n for pair in found)
    stds = [pair.comparison.std for pair in found if pair.comparison.std is not None]
    smallest = next(pair.comparison.smallest_p for pair in found if pair.comparison.n == n)
    told = f"{n} pairs cannot go below p = {smallest:.3g}"
    if stds and n > 1:
        typical = sorted(stds)[len(stds) // 2]
        told += f"; with the usual spread of differences {detection(n, detectable(typical, n))}"
    console.print(f"{told}.", soft_wrap=True)


def _show_reasons(console: Console, reasons: set[str]) -> None:
    if reasons:
        console.print("\n[bold]Not made[/]")
        for reason in sorted(reasons):
            console.print(f"- {escape(reason)}", soft_wrap=True)
