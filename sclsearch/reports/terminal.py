"""Terminal output of reports, 80 columns wide."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sclsearch.canonical import counted, printable, settings
from sclsearch.reports import words
from sclsearch.reports.report import ConfigurationLine, Report

if TYPE_CHECKING:
    from sclsearch.reports.summary import Summary


class Terminal(Console):
    """Console that shows control characters of data, names and paths as escapes."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable; only Rich's own have control characters."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        """Return the output without the blanks that pad tables, also before codes of color."""
        return re.sub(r"(?m) +(?=(?:\x1b\[[\d;]*m)*$)", "", super()._render_buffer(buffer))


def show(console: Console, report: Report, *, most: int = 20) -> None:
    """Print the ranking, with at most `most` configurations, the winner and its test score."""
    size = f", {report.size} training examples" if report.size else ""
    console.print(
        f"[bold]{report.method}[/] on [bold]{escape(report.task)}[/]{size}, "
        f"{escape(report.model)}, protocol {report.protocol}",
        soft_wrap=True,
    )
    if report.space_note:
        console.print(Text(f"Search space: {report.space_note}"), style="dim", soft_wrap=True)
    console.print(_ranking(report, most))
    if len(report.configurations) > most:
        console.print(f"… and {len(report.configurations) - most} more")
    if report.winner is not None:
        _show_winner(console, report, report.winner)
    show_notes(console, report)


def show_summary(console: Console, summary: "Summary") -> None:
    """Print the answer, its certainty, and the next step with its command on a line of its own."""
    answer, *others = summary.sentences
    console.print()
    console.print(Text(answer), style="bold")
    for sentence in others:
        console.print(Text(sentence))
    if summary.command:
        console.print(f"  {escape(summary.command)}", soft_wrap=True, highlight=False)


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="bold")


def _ranking(report: Report, most: int) -> Table:
    table = _table()
    names = ["validation"] * (report.tested_on == "test") + [report.tested_on]
    for heading in ("#", *(f"{name}\n{report.metric}" for name in names), "seeds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("configuration", overflow="fold")
    for line in report.configurations[:most]:
        first = line.origin in {"published", "start"}
        origin = f" [dim]({line.origin})[/]" if first else ""
        validation, test = words.validation_result(line), words.test_result(line)
        if len(line.seeds) < report.seeds:
            test = "…" if report.tested_on == "test" else validation
        table.add_row(
            str(line.number),
            *(validation, test)[-len(names) :],
            f"{line.succeeded}/{report.seeds}",
            escape(words.values_of(report, line)) + origin,
            style="bold" if line is report.winner else None,
        )
    for line in report.baselines:
        name = f"[dim]baseline: {line.origin}[/]"
        scores = words.validation_result(line, "–"), words.test_result(line)
        table.add_row("", *scores[-len(names) :], "", name)
    return table


def _show_winner(console: Console, report: Report, winner: ConfigurationLine) -> None:
    console.print(f"\nValidation {report.metric}: {words.rule_of(report)} (rule {report.rule})")
    if winner.plain and 0 < len(winner.reported) < winner.succeeded:
        every, without = words.with_spread(*winner.plain), words.left_out(winner.failed)
        console.print(f"  {report.tested_on} {report.metric} {every} over all seeds, {without}")
    if winner.failed:
        cause = next(seed.failure for seed in winner.seeds if seed.failure)
        seeds = f"{winner.succeeded} of {report.seeds} seeds; first failure: {escape(cause)}"
        console.print(f"  {seeds}", soft_wrap=True)
    if report.settings:
        console.print(f"  set by hand: {escape(settings(report.settings))}", soft_wrap=True)


def show_savings(console: Console, report: Report, *, skipped: int, reused: int) -> None:
    """Print the numbers of seed runs that the race skipped, or that the storage had.

    The time that this saved is an estimate from the mean training time.
    """
    for count, text in (
        (skipped, "skipped by the race: {} of training saved"),
        (reused, "read from the storage: {} of training not repeated"),
    ):
        if count and report.seed_runs:
            saved = words.duration(count * report.seconds / len(report.seed_runs))
            console.print(f"  {counted(count, 'seed run')} {text.format(saved)}")


def show_notes(console: Console, report: Report) -> None:
    """Print the notes of a report, indented."""
    for note in report.notes:
        console.print(Padding(Text(note), (0, 0, 0, 2), expand=False))


def grid(
    headings: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str] = ()
) -> Table:
    """Return a table of texts without the optional columns whose cells are all equal."""
    table, kept = _table(), list[list[str]]()
    for heading, *cells in zip(headings, *rows, strict=True):
        if heading not in optional or len(set(cells)) > 1:
            table.add_column(heading, overflow="fold")
            kept.append([escape(cell) for cell in cells])
    for row in zip(*kept, strict=True):
        table.add_row(*row)
    return table
