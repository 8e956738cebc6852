"""Terminal output that compares reproduced with published values, 80 columns wide."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from sclsearch.canonical import counted
from sclsearch.papers.base import SCALES, Cell, Table
from sclsearch.papers.confirm import Confirmation
from sclsearch.papers.figures import Figure, Work
from sclsearch.papers.pairs import pairs
from sclsearch.papers.plan import PlannedCell
from sclsearch.reports.report import ConfigurationLine, Report
from sclsearch.reports.terminal import (
    COMPARED,
    compared,
    duration,
    grid,
    show_limits,
    test_result,
    with_spread,
)
from sclsearch.selection.significance import detection, in_points
from sclsearch.selection.variance import Component, Spread

SEEDS_OF_PAPERS = 10


def show_work(
    console: Console, works: Sequence[tuple[PlannedCell, Work]], planned: Sequence[PlannedCell]
) -> None:
    """Print the studies of some cells, their seed runs and their estimated time."""
    made = [(one, work) for one, work in works if not work.reason]
    if made:
        rows = [
            (
                one.cell.block.name,
                one.cell.row.name,
                str(one.spec and one.spec.task),
                str(work.seed_runs),
                str(work.missing),
                duration(work.time.seconds if work.time else None),
            )
            for one, work in made
        ]
        headings = ("condition", "row", "task", "seed runs", "missing", "time")
        console.print(grid(headings, rows, optional=("condition",)))
        _show_total(console, [work for _, work in made])
    wrong = [(one.cell, work.reason) for one, work in works]
    _show_reasons(console, [*((one.cell, one.reason) for one in planned), *wrong])


def _show_total(console: Console, works: Sequence[Work]) -> None:
    runs, missing = sum(work.seed_runs for work in works), sum(work.missing for work in works)
    times = [work.time for work in works if work.time is not None and work.missing]
    known = {time.basis: time for time in times if time.seconds is not None}
    unknown = {time.basis: time for time in times if time.seconds is None}
    total = duration(sum(time.seconds or 0.0 for time in times) if known or not times else None)
    if known:
        least = "at least " if unknown else ""
        at_once = counted(times[0].at_once, "seed run")
        total = f"{least}{total}, {at_once} at a time, by {' or '.join(known)}"
    console.print(
        f"\n{len(works)} studies, {runs} seed runs, {missing} of them to train; time: {total}."
    )
    for reason in unknown:
        console.print(f"- time unknown: {escape(reason)}", soft_wrap=True)


def show_figures(console: Console, table: Table, figures: Sequence[Figure]) -> None:
    """Print each reproduced value beside the published one, row comparisons and remarks."""
    console.print(f"[bold]{table.name}[/] {escape(table.title)}")
    console.print(f"published: {escape(table.figure)}")
    made = [one for one in figures if one.mean is not None]
    if made:
        rules = " or ".join(dict.fromkeys(one.rule for one in made))
        console.print(f"ours: rule {rules}, test figures in points\n")
        _show_made(console, table, made)
        _show_pairs(console, made)
        console.print("\n[bold]Why they may differ[/]")
        for note in dict.fromkeys((*(note for one in made for note in one.notes), *table.notes)):
            console.print(f"- {escape(note)}")
    _show_reasons(console, [(one.cell, one.reason) for one in figures])


def _show_made(console: Console, table: Table, made: Sequence[Figure]) -> None:
    rows = []
    for one in made:
        value, std = table.as_metric(one.cell)
        mean, every = one.mean or 0.0, one.plain or 0.0
        finished = sum(test is not None for test in one.tests)
        rows.append(
            (
                one.cell.block.name,
                one.cell.row.name,
                one.cell.column.name,
                _percent(mean, one.std),
                _percent(value, std),
                f"{100 * (mean - value):+.1f}",
                _percent(every, None),
                f"{finished}/{one.seeds}",
            )
        )
    headings = ("condition", "row", "column", "ours", "published", "diff", "all", "seeds")
    console.print(grid(headings, rows, optional=("condition",)))
    console.print("all: mean over all seeds that finished", style="dim")


def show_confirmation(console: Console, found: Confirmation) -> None:
    """Print a winner's score as chosen, over all its seeds, and on new seeds."""
    winner, again = found.chosen.winner, found.fresh.winner
    if winner is None or again is None:
        console.print("The fresh replicates are not finished.")
        return
    every = with_spread(*winner.plain) if winner.plain else "none"
    console.print(
        f"[bold]Winner #{winner.number}[/] of {found.chosen.study}, test {found.chosen.metric}",
        soft_wrap=True,
    )
    console.print(f"  as chosen      {test_result(winner)}, rule {found.chosen.rule}")
    console.print(f"  all its seeds  {every}, {_seeds(found.chosen, winner)}")
    console.print(f"  fresh seeds    {test_result(again)}, {_seeds(found.fresh, again)}")
    if again.test_mean is not None and winner.test_mean is not None:
        console.print(f"  fresh - chosen {again.test_mean - winner.test_mean:+.4f}")
    for note in found.fresh.notes:
        console.print(f"  {escape(note)}")


def show_spread(console: Console, study: str, spread: Spread) -> None:
    """Print the sources of a score's variance, and the differences that seeds can detect."""
    console.print(
        f"[bold]{escape(study)}[/], its winner: {spread.runs} seed runs, mean test figure "
        f"{spread.mean:.4f}"
    )
    rows = [
        (name, f"{100 * spread.share(name):.0f} %", *_deviation(component))
        for name, component in spread.components.items()
    ]
    rows.append(("together", "", *_deviation(spread.total)))
    console.print(grid(("source", "share", "standard deviation", "95 %"), rows))
    for note in spread.notes:
        console.print(f"- {note}")
    one, low, high = spread.detectable(SEEDS_OF_PAPERS)
    console.print(
        f"{detection(SEEDS_OF_PAPERS, one)} between two such configurations, by the interval of "
        f"the spread {in_points(low)} to {in_points(high)}."
    )


def _seeds(found: Report, line: ConfigurationLine) -> str:
    finished = f"{found.seeds - line.failed} of " if line.failed else ""
    return f"mean of {finished}{counted(found.seeds, 'seed')}"


def _deviation(component: Component) -> tuple[str, str]:
    low, high = component.interval
    return f"{component.variance**0.5:.4f}", f"{low**0.5:.4f} … {high**0.5:.4f}"


def _percent(value: float, std: float | None) -> str:
    scale = SCALES["percent"]
    return f"{scale * value:.1f}" + ("" if std is None else f" ± {scale * std:.1f}")


def _show_pairs(console: Console, figures: Sequence[Figure]) -> None:
    found = pairs(figures)
    if not found:
        return
    bases = dict.fromkeys(pair.base.row.name for pair in found)
    console.print(f"\n[bold]Rows against {escape(' or '.join(bases))}, over all seeds[/]")
    rows = [
        (
            pair.ours.block.name,
            pair.ours.column.name,
            f"{pair.ours.row.name}{f' - {pair.base.row.name}' if len(bases) > 1 else ''}",
            *compared(pair.comparison, pair.adjusted),
        )
        for pair in found
    ]
    headings = ("condition", "column", "row", *COMPARED)
    console.print(grid(headings, rows, optional=("condition",)))
    show_limits(console, [pair.comparison for pair in found])


def _show_reasons(console: Console, reasons: Sequence[tuple[Cell, str]]) -> None:
    """Print the reasons for missing cells, each reason once with its first cell."""
    cells: dict[str, list[str]] = {}
    for cell, reason in reasons:
        if reason:
            name = f"{cell.block.name}, {cell.row.name}, {cell.column.name}"
            cells.setdefault(reason, []).append(name)
    if cells:
        console.print("\n[bold]Not made[/]")
    for reason, names in cells.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(f"- {escape(names[0])}{more}: {escape(reason)}")
