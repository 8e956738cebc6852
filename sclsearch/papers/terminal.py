"""Terminal output that compares reproduced with published scores, 80 columns wide."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from sclsearch.papers.reproduce import CellScore, PlannedCell, compare_rows
from sclsearch.papers.tables import Cell, Table
from sclsearch.reports.comparison_tables import COLUMNS, COMPARED, compared
from sclsearch.reports.terminal import grid
from sclsearch.reports.words import duration, expected_time
from sclsearch.store.storage import Storage, storage_option


def show_costs(
    console: Console,
    costs: Sequence[tuple[PlannedCell, Mapping[str, Any]]],
    planned: Sequence[PlannedCell],
) -> None:
    """Print the cost of each distinct study, and why other planned cells have none."""
    possible = [(one, cost) for one, cost in costs if "reason" not in cost]
    if possible:
        rows = [
            (
                one.cell.block,
                one.cell.row,
                str(one.spec and one.spec.task),
                str(cost["seed_runs"]),
                str(cost["missing"]),
                duration(cost["seconds"]),
            )
            for one, cost in possible
        ]
        headings = ("condition", "row", "task", "seed runs", "missing", "time")
        console.print(grid(headings, rows, optional=("condition",)))
        _show_total(console, [cost for _, cost in possible])
        for note in dict.fromkeys(one.note for one, _ in possible if one.note):
            console.print(f"Note: {escape(note)}.")
    reasons = [(one.cell, one.reason) for one in planned]
    reasons += [(one.cell, cost.get("reason", "")) for one, cost in costs]
    _show_reasons(console, reasons)


def _show_total(console: Console, costs: Sequence[Mapping[str, Any]]) -> None:
    runs, missing = (sum(cost[name] for cost in costs) for name in ("seed_runs", "missing"))
    seconds = [cost["seconds"] for cost in costs if cost["missing"]]
    console.print(
        f"\n{'1 study' if len(costs) == 1 else f'{len(costs)} studies'}, {runs} seed runs, "
        f"{missing} of them to train; time: {expected_time(seconds, costs[0]['at_once'])}."
    )


def show_scores(console: Console, table: Table, scores: Sequence[CellScore]) -> None:
    """Print each reproduced score beside the published one, row comparisons and remarks."""
    console.print(f"[bold]{table.name}[/] {escape(table.title)}")
    console.print(f"published: {escape(table.value)}")
    reproduced = [one for one in scores if one.mean is not None]
    if reproduced:
        rules = " or ".join(dict.fromkeys(one.rule for one in reproduced))
        console.print(f"ours: rule {rules}, test scores in points\n")
        rows = []
        for one in reproduced:
            value, std = one.cell.value, one.cell.std
            mean, plain = one.mean or 0.0, one.plain or 0.0
            finished = sum(test is not None for test in one.tests)
            rows.append(
                (
                    one.cell.block,
                    one.cell.row,
                    one.cell.column,
                    _percent(mean, one.std),
                    "–" if value is None else _percent(value, std),
                    "" if value is None else f"{100 * (mean - value):+.1f}",
                    _percent(plain, None),
                    f"{finished}/{len(one.tests)}",
                )
            )
        headings = ("condition", "row", "column", "ours", "published", "diff", "all", "seeds")
        console.print(grid(headings, rows, optional=("condition",)))
        console.print("all: mean over all seeds that finished", style="dim")
        _show_comparisons(console, reproduced)
        console.print("\n[bold]Differences from the paper[/]")
        notes = (*(note for one in reproduced for note in one.notes), *table.notes)
        for note in dict.fromkeys(notes):
            console.print(f"- {escape(note)}")
    _show_reasons(console, [(one.cell, one.reason) for one in scores])


def drawing_commands(table: Table, scores: Sequence[CellScore], storage: Storage) -> Iterator[str]:
    """Yield the command that draws a reproduced figure, for each task."""
    studies: dict[str, list[str]] = {}
    for one in scores:
        if "/figure-" in table.name and one.mean is not None:
            studies.setdefault(one.cell.column, []).append(one.study)
    for column, names in studies.items():
        folder = f"{table.name.replace('/', '-')}-{column.lower()}"
        options = f"--output {folder}{storage_option(storage)}"
        yield f"Draw {column}: sclsearch report {' '.join(names)} {options}"


def _show_comparisons(console: Console, scores: Sequence[CellScore]) -> None:
    found = compare_rows(scores)
    if not found:
        return
    bases = dict.fromkeys(one["base"].row for one in found)
    names = dict.fromkeys(one["ours"].row for one in found)
    which = next(iter(names)) if len(names) == 1 else "Rows"
    against = f"{which} against {' or '.join(bases)}, over all seeds"
    console.print(f"\n[bold]{escape(against)}[/]")
    rows = []
    for one in found:
        ours, base = one["ours"], one["base"]
        against = f" - {base.row}" if len(bases) > 1 else ""
        figures = compared(one["comparison"], one["adjusted"])
        wilcoxon = f"{one['comparison'].p_wilcoxon:.3f}"
        rows.append((ours.block, ours.column, f"{ours.row}{against}", *figures, wilcoxon))
    places = ("condition", "column", "row")
    console.print(grid((*places, *COMPARED, "Wilcoxon"), rows, optional=places))
    legend = f"{COLUMNS}; Wilcoxon: p of the signed-rank test, as papers print it"
    console.print(legend, style="dim")


def _show_reasons(console: Console, reasons: Sequence[tuple[Cell, str]]) -> None:
    cells: dict[str, list[str]] = {}
    for cell, reason in reasons:
        if reason:
            cells.setdefault(reason, []).append(cell.name)
    if cells:
        console.print("\n[bold]Not reproduced[/]")
    for reason, names in cells.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(f"- {escape(names[0])}{more}: {escape(reason)}")


def _percent(value: float, std: float | None) -> str:
    return f"{100 * value:.1f}" + ("" if std is None else f" ± {100 * std:.1f}")
