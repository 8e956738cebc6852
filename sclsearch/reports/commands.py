"""Commands that reports suggest, with all options that they need."""

import shlex

from sclsearch.methods import is_own
from sclsearch.reports.report import Report
from sclsearch.selection.rules import parse_rule
from sclsearch.store.storage import storage_option
from sclsearch.store.studies import existing_study


def method_option(report: Report) -> str:
    """Return the option ` --method FILE.py:CLASS`; empty for a built-in method."""
    place = report.method_place
    return f" --method {shlex.quote(place)}" if is_own(place) else ""


def rule_option(report: Report) -> str:
    """Return the option ` --rule RULE`; empty for the rule of the study's record."""
    _, record = existing_study(report.storage, report.study)
    return "" if report.rule == str(parse_rule(record.origin["rule"])) else f" --rule {report.rule}"


def confirm_command(report: Report) -> str:
    """Return the command that tests the winner of a report on fresh seeds."""
    options = f"{method_option(report)}{rule_option(report)}{storage_option(report.storage)}"
    return f"sclsearch confirm {report.study}{options}"


def rerun_command(report: Report, key: str, weights: str | None = None) -> str:
    """Return the command that trains a seed run of a study again, and writes weights to a file."""
    file = "" if weights is None else f" --weights {shlex.quote(weights)}"
    options = f"{method_option(report)}{storage_option(report.storage)}{file}"
    return f"sclsearch rerun {key[:12]}{options}"
