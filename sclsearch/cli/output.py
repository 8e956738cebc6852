"""Output of the commands that no console lays out: lines, and JSON."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import printable

if TYPE_CHECKING:
    from sclsearch.reports.report import Report


def write(text: str, *, error: bool = False) -> None:
    """Write a text to standard output or error, without control characters to a terminal."""
    stream = sys.stderr if error else sys.stdout
    stream.write(printable(text) if stream.isatty() else text)


def print_json(named: Mapping[str, Any]) -> None:
    """Print a mapping, which may contain dataclasses, as JSON to standard output."""
    write(json.dumps(named, indent=2, ensure_ascii=False, default=asdict) + "\n")


def report_json(found: "Report") -> dict[str, Any]:
    """Return a report for JSON, with the number of the winner instead of its configuration."""
    return {**asdict(found), "winner": found.winner and found.winner.number}
