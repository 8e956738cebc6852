"""Evidence for and against claims of the papers: benchmarks/evidence.md.

    python -m benchmarks.evidence > benchmarks/evidence.md
    python -m benchmarks.evidence --storage evidence-storage > benchmarks/evidence.md

The first command makes the page from the seed runs in `benchmarks/evidence/`, without Ray.
The second one writes these files from a storage first. `benchmarks/evidence.sh` trains the rows.
"""

import argparse
import shlex
import sys
from pathlib import Path

from benchmarks.evidence.page import page
from benchmarks.evidence.records import export_all, stored_frames
from benchmarks.evidence.rows import DEFAULT_STORAGE, MODEL, ROWS, commands, planned
from benchmarks.machine import markdown
from sclsearch.errors import SclsearchError


def main() -> None:
    """Print the page, or the commands or the plan of its rows."""
    try:
        _run()
    except SclsearchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def _run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to train; default: all")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--storage", type=Path, help="writes the seed runs of this storage first")
    parser.add_argument("--commands", action="store_true", help="print the commands of the rows")
    parser.add_argument("--plan", action="store_true", help="print missing seed runs and hours")
    options = parser.parse_args()
    names = [row.name for row in ROWS]
    if unknown := [name for name in options.rows if name not in names]:
        parser.error(f"ROW: must be one of {', '.join(names)}, got {', '.join(unknown)}.")
    rows = [row for row in ROWS if row.name in (options.rows or names)]
    storage = options.storage or DEFAULT_STORAGE
    if options.commands:
        for command in commands(rows, options.model, storage):
            print(shlex.join(command))
    elif options.plan:
        for line in markdown(PLAN, planned(rows, options.model, storage)):
            print(line, flush=True)
    else:
        if options.storage:
            export_all(options.model, storage)
        print(*page(options.model, stored_frames(options.model)), sep="\n")


PLAN = ("side", "seed runs, search", "seed runs, confirmation", "hours")


if __name__ == "__main__":
    main()
