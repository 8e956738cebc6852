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
from sclsearch.reports.notes import seeds_lacking
from sclsearch.reports.report import ConfigurationLine, Report
from sclsearch.selection.race import Band
from sclsearch.selection.rules import parse_rule

if TYPE_CHECKING:
    from sclsearch.reports.summary import Summary

FIRST = ("published", "start")
CONFIGURATION = {False: "defaults", True: "the winner that it repeats"}
"""Label of a configuration without values; the key is True if the study repeats a winner."""
RULES = dict.fromkeys(("mean", "careful"), "mean of {n} seeds") | {"best": "best of {n} seeds"}


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
    console.print(_table(report, most))
    if len(report.configurations) > most:
        console.print(f"… and {len(report.configurations) - most} more")
    if report.winner is not None:
        _show_winner(console, report, report.winner)
    show_notes(console, report)


def show_summary(console: Console, summary: "Summary") -> None:
    """Print the answer, its certainty, and the next step with its command on a line of its own."""
    console.print()
    console.print(Text(summary.answer), style="bold")
    if summary.certainty:
        console.print(Text(summary.certainty))
    if summary.next_step:
        console.print(Text(f"Next: {summary.next_step}"))
    if summary.command:
        console.print(f"  {escape(summary.command)}", soft_wrap=True, highlight=False)


def _table(report: Report, most: int) -> Table:
    shown = report.configurations[:most]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column(f"validation\n{report.metric}", justify="right")
    table.add_column(f"test\n{report.metric}", justify="right", no_wrap=True)
    table.add_column("seeds", justify="right", no_wrap=True)
    table.add_column("configuration", overflow="fold")
    for line in shown:
        missing = len(line.seeds) < report.seeds
        table.add_row(
            str(line.number),
            validation_result(line),
            "…" if missing else test_result(line),
            f"{line.succeeded}/{report.seeds}",
            escape(values_of(report, line))
            + (f" [dim]({line.origin})[/]" if line.origin in FIRST else ""),
            style="bold" if line is report.winner else None,
        )
    for line in report.baselines:
        name = f"[dim]baseline: {line.origin}[/]"
        table.add_row("", validation_result(line, "–"), test_result(line), "", name)
    return table


def values_of(report: Report, line: ConfigurationLine) -> str:
    """Return the hyperparameters that tell a configuration from others, or a word without any."""
    return settings(line.values) or CONFIGURATION[report.repeats]


def tied_with(report: Report, winner: ConfigurationLine) -> list[ConfigurationLine]:
    """Return the other configurations with the winner's score; none if the start is kept."""
    if report.start_is_kept:
        return []
    return [
        one
        for one in report.configurations
        if one is not winner and one.reported and one.score == winner.score
    ]


def tie_statement(
    report: Report, winner: ConfigurationLine, tied: Sequence[ConfigurationLine]
) -> str:
    """Return what decides between tied configurations."""
    if parse_rule(report.rule).margin and winner.origin in FIRST:
        return f"#{winner.number} is the start"
    losses = [one.loss for one in tied if one.loss is not None]
    lower = winner.loss is not None and bool(losses) and winner.loss < min(losses)
    return f"#{winner.number} has the {'lowest validation loss' if lower else 'lowest number'}"


def _show_winner(console: Console, report: Report, winner: ConfigurationLine) -> None:
    console.print(f"\nValidation {report.metric}: {rule_of(report)} (rule {report.rule})")
    if winner.plain and 0 < len(winner.reported) < winner.succeeded:
        every = with_spread(*winner.plain)
        console.print(f"  test {report.metric} {every} over all seeds, {left_out(winner.failed)}")
    if winner.failed:
        finished = report.seeds - winner.failed
        console.print(
            f"  {finished} of {report.seeds} seeds; a failed one counts as the metric's minimum "
            "in the score and is not in the test score"
        )
        cause = next(seed.failure for seed in winner.seeds if seed.failure)
        console.print(f"  first failure: {escape(cause)}", soft_wrap=True)
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
            saved = duration(count * report.seconds / len(report.seed_runs))
            console.print(f"  {counted(count, 'seed run')} {text.format(saved)}")


def show_notes(console: Console, report: Report) -> None:
    """Print the notes of a report, indented."""
    for note in report.notes:
        console.print(Padding(Text(note), (0, 0, 0, 2), expand=False))


def grid(
    headings: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str] = ()
) -> Table:
    """Return a table of texts without the optional columns whose cells are all equal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    kept = [
        column
        for column, heading in enumerate(headings)
        if heading not in optional or len({row[column] for row in rows}) > 1
    ]
    for column in kept:
        table.add_column(headings[column], overflow="fold")
    for row in rows:
        table.add_row(*(escape(row[column]) for column in kept))
    return table


def validation_result(line: ConfigurationLine, missing: str = "…") -> str:
    """Return the score; without all seeds, the mean of those there are, and their number."""
    if line.score is not None:
        return f"{line.score:.4f}"
    if line.partial is None:
        return missing
    return f"{line.partial:.4f} ({counted(len(line.seeds), 'seed')})"


def test_result(line: ConfigurationLine) -> str:
    """Return mean ± standard deviation of the reported test scores.

    Without a score it is `none`, or `–` if seed runs have not been tested or have no test rows.
    """
    if line.test_mean is None:
        return "–" if line.reported else "none"
    return with_spread(line.test_mean, line.test_std)


def left_out(failed: int) -> str:
    """Return which seeds a mean leaves out."""
    return f"{'failed ones' if failed else 'none'} left out"


def with_spread(mean: float, std: float | None) -> str:
    """Return a mean with its standard deviation, `0.6493 ± 0.0142`, or the mean alone."""
    return f"{mean:.4f}" + ("" if std is None else f" ± {std:.4f}")


def duration(seconds: float | None) -> str:
    """Return a duration as text, such as `7 min` or `1.9 h`."""
    if seconds is None:
        return "unknown"
    minutes = seconds / 60
    if minutes >= 90:
        return f"{minutes / 60:.1f} h"
    return f"{minutes:.0f} min" if minutes >= 1 or not seconds else "under 1 min"


def rule_in_words(top: str, seeds: int) -> str:
    """Return the score part of a rule in words, such as `mean of the top 3 of 10 seeds`."""
    if seeds == 1:
        return "one seed"
    known = RULES.get(top, f"mean of the top {top.removeprefix('top-')} of {{n}} seeds")
    return known.format(n=seeds)


def rule_of(report: Report) -> str:
    """Return how the rule of a report scores a configuration, in words."""
    return rule_in_words(report.rule.partition("/")[0], report.seeds)


def race_statement(report: Report) -> str:
    """Return how many configurations have fewer seeds, and what that means for the winner."""
    if lacking := seeds_lacking(report):
        return f"{lacking}."
    seeds = "its seed" if report.seeds == 1 else f"all {report.seeds} seeds"
    return f"Every configuration has {seeds}, so the race skipped none."


def race_sentence(stages: Sequence[int], band: Band) -> str:
    """Return what a race does, in one sentence."""
    after = f"after {' and '.join(map(str, stages))} seeds"
    further = " and, at the end, all that can still win"
    if band != "exact":
        further = f" and those within {band:g} standard errors of the leader"
    return f"{after}, the best third of the configurations{further} go on"


def seeds_in_words(report: Report, winner: ConfigurationLine) -> str:
    """Return the seeds of the reported test score in words, such as `mean ± std of all 3 seeds`."""
    count = len(winner.reported)
    if report.seeds == 1:
        return "of one seed"
    if winner.succeeded == 1:
        return "of the only seed that finished"
    if count == 1:
        return "of the seed with the best validation score"
    return f"mean ± std of {'these' if count < report.seeds else 'all'} {count} seeds"
