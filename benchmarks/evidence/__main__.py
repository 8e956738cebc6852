"""Evidence for and against claims of the papers: benchmarks/evidence.md.

    python -m benchmarks.evidence
    python -m benchmarks.evidence --storage evidence-storage

The first command makes the tables of the page from the seed runs in `benchmarks/evidence/`, without
Ray. The second one writes these files from a storage first. `benchmarks/evidence.sh` trains them.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.evidence.claims import CLAIMS, FOLDER, sides_of
from benchmarks.evidence.page import page
from benchmarks.evidence.records import export, stored_frames
from sclsearch.errors import SclsearchError
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import study_names

PAGE = FOLDER.with_suffix(".md")


def main() -> None:
    """Make the tables of the page, or print the commands that train its claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="claims to train; default: all")
    parser.add_argument("--storage", type=Path, help="writes the seed runs of this storage first")
    parser.add_argument("--commands", action="store_true", help="print the commands of the claims")
    options = parser.parse_args()
    names = [claim.name for claim in CLAIMS]
    if unknown := [name for name in options.claims if name not in names]:
        parser.error(f"CLAIM: must be one of {', '.join(names)}, got {', '.join(unknown)}.")
    if options.commands:
        claims = [one for one in CLAIMS if one.name in options.claims or not options.claims]
        for side in sides_of(claims):
            print(*side.commands(options.storage or Path("evidence-storage")), sep="\n")
        return
    if options.storage:
        _export_all(options.storage)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), stored_frames()), encoding="utf-8")


def _export_all(storage: Path) -> None:
    names = study_names(storage_folder(storage, make=False))
    for side in sides_of(CLAIMS):
        if side.study in names:
            try:
                export(side.study, storage)
            except SclsearchError as error:
                print(f"Not recorded: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
