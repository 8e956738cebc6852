"""Signals while a search runs."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sclsearch.errors import SclsearchError

END_SIGNAL = signal.SIGUSR1
"""On which Tune ends in order, as it does on Ctrl-C."""

_ONE_SIGNAL_SECONDS = 5.0


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
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Lets SIGTERM end the body in order, as Ctrl-C does; not in another thread than the main one.

    While Tune runs it is asked to stop; before, KeyboardInterrupt is raised. `timeout` sends
    SIGTERM to the process and then to its group: what comes soon after the first is no second one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deaf = signal.getsignal(END_SIGNAL)
    last = -_ONE_SIGNAL_SECONDS

    def end(_signal: int, _frame: FrameType | None) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if signal.getsignal(END_SIGNAL) != deaf:
            signal.raise_signal(END_SIGNAL)
        elif last - before >= _ONE_SIGNAL_SECONDS:
            raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


@contextmanager
def held_ctrl_c() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM wait for the end of the body.

    Ray's C extensions, when imported, swallow what they raise. In a thread that takes no signals
    it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda number, _frame: held.append(number)) for each in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    if held:
        raise KeyboardInterrupt
