"""Tests of the start of Ray on this machine: a failed start leaves no process behind."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.signals import sigterm_as_ctrl_c

LATE = "The current node timed out during startup. This could happen because of a full moon."

Starting = Callable[..., list[subprocess.Popen[bytes]]]


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Starting:
    """Return a function that makes each start of Ray spawn a process and call the next function."""
    import ray
    from ray._private import services, utils

    def starting(*ends: Callable[[], object]) -> list[subprocess.Popen[bytes]]:
        started: list[subprocess.Popen[bytes]] = []

        def init(**_: Any) -> None:
            utils.set_sigterm_handler(lambda *_: os._exit(15))
            process = services.start_ray_process(["sleep", "600"], "raylet", fate_share=True)
            started.append(process.process)
            ends[len(started) - 1]()

        monkeypatch.setattr(ray, "init", init)
        return started

    return starting


def late() -> None:
    raise Exception(LATE)  # noqa: TRY002  # as Ray does


def test_a_start_of_ray_that_times_out_is_repeated_once(starting: Starting) -> None:
    from sclsearch.ray_backend.local import start_local

    started = starting(late, lambda: None)
    start_local(2, {})
    first, second = started
    assert first.poll() == -signal.SIGKILL
    assert second.poll() is None
    assert os.getpgid(second.pid) == second.pid != os.getpgid(0)
    second.kill()
    second.wait()


def test_two_timeouts_of_ray_raise_one_error_and_leave_no_process(starting: Starting) -> None:
    from sclsearch.ray_backend.local import start_local

    started = starting(late, late)
    with pytest.raises(SclsearchError) as caught:
        start_local(2, {})
    assert [process.poll() for process in started] == [-signal.SIGKILL] * 2
    message = str(caught.value)
    assert message.startswith(
        "Ray: its processes did not start on this machine in two attempts: "
        "The current node timed out during startup. The load is "
    )
    assert message.endswith("/ray/session_latest/logs. Run the same command to resume.")


def test_sigterm_while_ray_starts_acts_as_ctrl_c_and_leaves_no_process(starting: Starting) -> None:
    from sclsearch.ray_backend.local import sigterm_kept, start_local

    started = starting(lambda: os.kill(os.getpid(), signal.SIGTERM))
    with sigterm_as_ctrl_c(), sigterm_kept(), pytest.raises(KeyboardInterrupt):
        start_local(2, {})
    assert [process.poll() for process in started] == [-signal.SIGKILL]
    assert not Path(f"/proc/{started[0].pid}").exists()
