"""Signals while a search runs."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sclsearch.errors import SclsearchError

END_SIGNAL = signal.SIGUSR1
"""On which Tune ends in order, as it does on Ctrl-C."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Takes SIGTERM for Ctrl-C in the body; afterwards all signals mean what they meant before.

    Tune leaves its own handlers of SIGINT and SIGUSR1 behind, which do nothing once it has ended.

    Raises:
        SclsearchError: This is not the main thread, which alone can take signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SclsearchError(
            "tune: it must run in the main thread, which alone takes Ctrl-C and SIGTERM, but it "
            f"was called in {threading.current_thread().name!r}. Call it there, or in a process."
        )

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        signal.raise_signal(END_SIGNAL)

    numbers = (signal.SIGINT, signal.SIGTERM, END_SIGNAL)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
