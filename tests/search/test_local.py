"""Ray on this machine starts whole or leaves nothing behind."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.search.signals import sigterm_as_ctrl_c

Starting = Callable[..., list[subprocess.Popen[bytes]]]


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Starting:
    """Returns what makes Ray start a process each time, which then ends as it is told."""
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


def test_sigterm_while_ray_starts_is_ctrl_c_and_nothing_of_it_stays(starting: Starting) -> None:
    from sclsearch.search.local import sigterm_kept, start_local

    started = starting(lambda: os.kill(os.getpid(), signal.SIGTERM))
    with sigterm_as_ctrl_c(), sigterm_kept(), pytest.raises(KeyboardInterrupt):
        start_local(2, {})
    assert [process.poll() for process in started] == [-signal.SIGKILL]
    assert not Path(f"/proc/{started[0].pid}").exists()
