"""Program that opens a page in the browser as soon as its server answers."""

import sys
import time
import webbrowser
from urllib.request import urlopen

LONGEST_WAIT = 120.0


def open_when_ready(server: str, page: str) -> bool:
    """Open a page once `server/health` answers; return False if it does not within two minutes."""
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        try:
            with urlopen(f"{server}/health", timeout=5):
                return webbrowser.open(page)
        except OSError:
            time.sleep(0.3)
    return False


if __name__ == "__main__":
    open_when_ready(*sys.argv[1:])
