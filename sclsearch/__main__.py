"""Entry point of the commands `sclsearch` and `python -m sclsearch`."""

import signal
import sys
import threading

from sclsearch.errors import INTERRUPTED, STOPPED


def main() -> None:
    """Run the command line; on Ctrl-C print one line and exit, even during imports."""
    sys.unraisablehook = _interrupt_again
    try:
        from sclsearch.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that Python drops: it ignores exceptions in destructors and callbacks."""
    if unraisable.exc_type is KeyboardInterrupt:
        main_thread = threading.main_thread().ident
        threading.Timer(0.1, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
