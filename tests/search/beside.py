"""Helper that runs work in a thread beside a search."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run work in a thread; after the body set the event and wait for the thread."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=[over], daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
