"""What goes on beside a search while it runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Does work in a thread of its own; at the body's end its event is set and it is waited for."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=[over], daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
