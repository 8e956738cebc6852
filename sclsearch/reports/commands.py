"""Commands that reports suggest, with all options that they need."""

import shlex

from sclsearch.methods import is_own
from sclsearch.reports.report import Report
from sclsearch.store.storage import storage_option


def method_option(report: Report) -> str:
    """Return the option ` --method FILE.py:CLASS`; empty for a built-in method."""
    place = report.method_place
    return f" --method {shlex.quote(place)}" if is_own(place) else ""


def rerun_command(report: Report, key: str, weights: str | None = None) -> str:
    """Return the command that trains a seed run of a study again, and writes weights to a file."""
    file = "" if weights is None else f" --weights {shlex.quote(weights)}"
    options = f"{method_option(report)}{storage_option(report.storage)}{file}"
    return f"sclsearch rerun {key[:12]}{options}"
