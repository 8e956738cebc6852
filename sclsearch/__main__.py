"""Entry point of the command line: `sclsearch`, or `python -m sclsearch`."""

import sys

from sclsearch.errors import INTERRUPTED, STOPPED


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line, also while packages are imported."""
    try:
        from sclsearch.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
