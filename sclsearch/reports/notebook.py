"""Short forms of a report: one line for a prompt, and HTML for a notebook."""

from html import escape

from sclsearch.canonical import settings
from sclsearch.reports.report import Report
from sclsearch.reports.table import paper_table
from sclsearch.reports.terminal import CONFIGURATION, test_result

MOST = 20
"""Largest number of configurations in the HTML."""


def as_text(report: Report) -> str:
    """Return study, winner, validation score and test score as one line."""
    subject = f"{report.study}: {report.method} on {report.task}"
    if report.winner is None:
        failed = f": {len(report.failures)} seed runs failed" * bool(report.failures)
        return f"{subject}, no configuration is finished{failed}"
    test = f"test {test_result(report.winner)}" if report.has_test else "no test rows"
    return (
        f"{subject}, winner #{report.winner.number}, validation {report.metric} "
        f"{report.winner.score:.4f}, {test}"
    )


def as_html(report: Report) -> str:
    """Return the winner with its hyperparameters, and the best configurations as a table."""
    lines = [f"<p><b>{escape(as_text(report))}</b></p>"]
    if report.winner is not None:
        values = settings(report.winner.values) or CONFIGURATION[report.repeats]
        lines.append(f"<p>Winner: <code>{escape(values)}</code></p>")
    lines.append(paper_table([report]).head(MOST).to_html(index=False, border=0))
    if len(report.configurations) > MOST:
        lines.append(f"<p>… and {len(report.configurations) - MOST} more</p>")
    return "\n".join(lines)
