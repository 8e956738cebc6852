"""A search leaves signals as it found them."""

import os
import signal
import threading

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.signals import END_SIGNAL, held_ctrl_c, kept_signals, sigterm_as_ctrl_c


def test_sigterm_is_the_signal_that_ends_in_order_and_all_handlers_come_back() -> None:
    heard: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, END_SIGNAL)
    before = [signal.getsignal(number) for number in numbers]
    with sigterm_as_ctrl_c(), kept_signals():
        for number in (signal.SIGINT, END_SIGNAL):  # as Tune does
            signal.signal(number, lambda number, _frame: heard.append(number))
        os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [END_SIGNAL]
    assert [signal.getsignal(number) for number in numbers] == before


def test_another_thread_is_told_that_it_cannot_search() -> None:
    told: list[str] = []

    def search() -> None:
        with pytest.raises(SclsearchError) as caught, kept_signals():
            pytest.fail("it went on")
        told.append(str(caught.value))

    thread = threading.Thread(target=search, name="worker-7")
    thread.start()
    thread.join()
    assert told == [
        "tune: must run in the main thread, got 'worker-7'. Only the main thread receives Ctrl-C "
        "and SIGTERM: call it there, or in a separate process."
    ]


def test_sigterm_that_comes_before_tune_listens_is_ctrl_c_and_counts_once() -> None:
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
def test_ctrl_c_and_sigterm_wait_for_what_must_not_be_broken_off(number: int) -> None:
    done: list[bool] = []

    def press() -> None:
        os.kill(os.getpid(), number)
        done.append(True)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), held_ctrl_c():
        press()
    assert done
    assert signal.getsignal(number) == before
    with held_ctrl_c():
        pass


def test_in_another_thread_signals_are_left_alone() -> None:
    done: list[bool] = []

    def prepare() -> None:
        with sigterm_as_ctrl_c(), held_ctrl_c():
            done.append(True)

    thread = threading.Thread(target=prepare)
    thread.start()
    thread.join()
    assert done
