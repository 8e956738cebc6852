"""Signal handling during a search."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from sclsearch.errors import SclsearchError

END_SIGNAL = signal.SIGUSR1
"""Signal on which Ray Tune ends gracefully, as on Ctrl-C."""

_DUPLICATE_SIGNAL_SECONDS = 5.0


@contextmanager
def restored_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers after the body.

    Ray and Tune leave their own handlers installed; Tune's intercepts Ctrl-C and does nothing.

    Raises:
        SclsearchError: This is not the main thread; only the main thread can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SclsearchError(
            f"tune: must run in the main thread, got {threading.current_thread().name!r}. Only the "
            "main thread receives Ctrl-C and SIGTERM: call it there, or in a separate process."
        )
    numbers = (signal.SIGINT, signal.SIGTERM, END_SIGNAL)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def announce_ctrl_c(announce: Callable[[], object]) -> None:
    """Install a handler of Ctrl-C that calls `announce`, then the present one; main thread only."""
    handler = signal.getsignal(signal.SIGINT)

    def announced(number: int, frame: FrameType | None) -> None:
        announce()
        if callable(handler):
            handler(number, frame)

    signal.signal(signal.SIGINT, announced)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Make SIGTERM end the body gracefully, as Ctrl-C does; main thread only.

    While Tune runs, the handler asks it to stop; before, the handler raises KeyboardInterrupt.
    The shell command `timeout` sends SIGTERM to the process and then to its group.
    A signal soon after the first therefore does not count as a second one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before_tune = signal.getsignal(END_SIGNAL)
    last = -_DUPLICATE_SIGNAL_SECONDS

    def end(_signal: int, _frame: FrameType | None) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if signal.getsignal(END_SIGNAL) != before_tune:
            signal.raise_signal(END_SIGNAL)
        elif last - before >= _DUPLICATE_SIGNAL_SECONDS:
            raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


@contextmanager
def held_ctrl_c() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of the body.

    While Python imports them, Ray's C extensions swallow the exceptions of signal handlers. In a
    thread other than the main one, the function does nothing.
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
