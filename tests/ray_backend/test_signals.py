"""Tests of signals outside Tune: SIGTERM and Ctrl-C, and threads."""

import os
import signal
import threading

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.signals import held_ctrl_c, restored_signal_handlers, sigterm_as_ctrl_c


def test_outside_the_main_thread_a_search_is_refused_and_no_handler_changes() -> None:
    seen: list[str] = []

    def search() -> None:
        with sigterm_as_ctrl_c(), held_ctrl_c():
            seen.append("prepared")
        with pytest.raises(SclsearchError, match=r"^tune: .* main thread, got 'worker-7'"):
            restored_signal_handlers().__enter__()
        seen.append("refused")

    thread = threading.Thread(target=search, name="worker-7")
    thread.start()
    thread.join()
    assert seen == ["prepared", "refused"]


def test_sigterm_before_tune_handles_it_acts_as_ctrl_c_once() -> None:
    ended: list[bool] = []

    def end() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # as `timeout` does
            ended.append(True)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_as_ctrl_c():
        end()
    assert ended
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_wait_for_the_end_of_a_protected_block(number: int) -> None:
    finished: list[bool] = []

    def press() -> None:
        os.kill(os.getpid(), number)
        finished.append(True)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), held_ctrl_c():
        press()
    assert finished
    assert signal.getsignal(number) == before
