"""Output of the commands that no console lays out: lines, and JSON."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sclsearch.canonical import printable


def write(text: str, *, error: bool = False) -> None:
    """Write a text to standard output or error, without control characters to a terminal."""
    stream = sys.stderr if error else sys.stdout
    stream.write(printable(text) if stream.isatty() else text)


def print_json(named: Mapping[str, Any]) -> None:
    """Print a mapping, which may contain dataclasses, as JSON to standard output."""
    write(json.dumps(named, indent=2, ensure_ascii=False, default=asdict) + "\n")
