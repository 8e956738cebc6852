"""Markdown text of a study in the MLflow UI: its winner and the ranking of configurations."""

from collections.abc import Sequence

from sclsearch.canonical import counted
from sclsearch.reports.lines import ConfigurationLine, paired
from sclsearch.reports.report import Report
from sclsearch.reports.terminal import tie_statement, with_spread
from sclsearch.tracking.records import short_settings

MOST_ROWS = 20


def study_report(report: Report) -> str:
    """Return the verdict, the winner, the ranking of configurations and the notes of a study."""
    size = f", training size {report.size}" if report.size else ""
    about = (
        f"{report.method} on {report.task}{size}, {report.model}, protocol {report.protocol}, "
        f"rule {report.rule}, {counted(report.seeds, 'seed')} per configuration."
    )
    winner = report.winner
    first = "No configuration is finished." if winner is None else _winner(report, winner)
    hidden = len(report.configurations) - MOST_ROWS
    more = [f"{counted(hidden, 'more configuration')} in `report.json`."] if hidden > 0 else []
    notes = ["\n".join(f"- {note}" for note in report.notes)] if report.notes else []
    useless = ["\n".join(report.verdict.lines)] if report.verdict else []
    return "\n\n".join([*useless, first, about, _table(*_ranking(report)), *more, *notes])


def _winner(report: Report, winner: ConfigurationLine) -> str:
    lead = "" if report.lead is None else f", {report.lead:.4f} above the second"
    if tied := tie_statement(report, winner):
        lead = f", {tied}"
    test = f"test {_with_std(winner.test_mean, winner.test_std)}"
    return (
        f"**Winner: {short_settings(winner.values) or 'the only configuration'}**, validation "
        f"{report.metric} {winner.score:.4f}{lead}; {test if report.has_test else 'no test rows'}"
    )


def _ranking(report: Report) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    best, metric = report.winner, report.metric
    rows: list[tuple[str, ...]] = [
        (
            str(line.number),
            short_settings(line.values),
            _score(line),
            "" if best is None or line.score is None else _behind(best.score, line.score),
            _with_std(line.test_mean, line.test_std),
            "" if best is None or line is best else _test_difference(line, best, report),
            f"{len(line.seeds) - line.failed}/{report.seeds}",
        )
        for line in report.configurations[:MOST_ROWS]
    ]
    for line in report.baselines:
        test = _with_std(line.test_mean, line.test_std)
        rows.append(("", f"baseline: {line.origin}", _score(line), "", test, "", ""))
    headings = ("#", "configuration", f"score ({metric})", "behind", "test")
    return (*headings, "test − winner's (95 %)", "seeds"), rows


def _score(line: ConfigurationLine) -> str:
    return "" if line.score is None else f"{line.score:.4f}"


def _test_difference(line: ConfigurationLine, winner: ConfigurationLine, report: Report) -> str:
    """Return the mean difference of the test scores over common seeds, with its 95 % interval."""
    rows = zip(winner.seeds, report.rows, strict=True)
    subsets = {seed.replicate: own["train"] for seed, own in rows}
    found = paired(line, winner, subsets, report.metric)
    if found is None:
        return ""
    interval = "" if found.interval is None else " ({:+.4f} … {:+.4f})".format(*found.interval)
    return f"{found.difference:+.4f}{interval}"


def _behind(best: float | None, score: float) -> str:
    return "" if best is None or score == best else f"−{best - score:.4f}"


def _with_std(mean: float | None, std: float | None) -> str:
    return "" if mean is None else with_spread(mean, std)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )
