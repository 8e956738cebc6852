"""Entry point of the commands `sclsearch` and `python -m sclsearch`."""

import sys

from sclsearch.errors import INTERRUPTED, STOPPED


def main() -> None:
    """Run the command line; on Ctrl-C print one line and exit, even during imports."""
    try:
        from sclsearch.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
