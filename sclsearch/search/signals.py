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
def kept_signals() -> Iterator[None]:
    """Lets signals mean afterwards what they meant before.

    Ray and Tune leave handlers of their own behind; Tune's take Ctrl-C and do nothing any more.

    Raises:
        SclsearchError: This is not the main thread, which alone can take signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SclsearchError(
            "tune: it must run in the main thread, which alone takes Ctrl-C and SIGTERM, but it "
            f"was called in {threading.current_thread().name!r}. Call it there, or in a process."
        )
    numbers = (signal.SIGINT, signal.SIGTERM, END_SIGNAL)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held_ctrl_c() -> Iterator[None]:
    """Lets Ctrl-C wait for the end of the body: Ray's C extensions, when imported, swallow it."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def take_sigterm_for_ctrl_c() -> None:
    """Makes SIGTERM end a search in order."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        signal.raise_signal(END_SIGNAL)

    signal.signal(signal.SIGTERM, interrupt)
