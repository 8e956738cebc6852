"""Local Ray instance that other machines cannot reach, started completely or not at all."""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from subprocess import Popen
from types import ModuleType
from typing import Any

import ray
from ray._common.utils import get_default_ray_temp_dir
from ray._private import ray_constants, services, utils, worker

from sclsearch.errors import SclsearchError
from sclsearch.study.resources import first_sentence


def start_local(cores: int, quiet: Mapping[str, Any]) -> None:
    """Start Ray on this machine, with one retry if its processes do not start in time.

    Args:
        cores: CPU cores that seed runs may use.
        quiet: Ray options that suppress output to the terminal.

    Raises:
        SclsearchError: The second attempt failed too.
    """
    try:
        _start(cores, quiet)
    except Exception:
        try:
            _start(cores, quiet)
        except Exception as error:
            raise SclsearchError(
                "Ray: its processes did not start on this machine in two attempts: "
                f"{first_sentence(str(error))}. The load is {os.getloadavg()[0]:.0f} on {cores} "
                "cores: if it is high, wait; otherwise read Ray's logs in "
                f"{get_default_ray_temp_dir()}/session_latest/logs. Run the same command to resume."
            ) from error


def _start(cores: int, quiet: Mapping[str, Any]) -> None:
    # For 127.0.0.1, Ray would use the machine's own address and listen on every interface. It stays
    # on the loopback interface if it cannot form a cluster, as on a Mac.
    with _replaced(ray_constants, "ENABLE_RAY_CLUSTER", False), _processes_apart():
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Preserve the SIGTERM handler while the body starts or joins Ray, and afterwards.

    Ray would exit at once, in the middle of its start. Ray's C++ core also installs a handler of
    its own, which stays until this function resets it.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with _replaced(utils, "set_sigterm_handler", lambda _handler: None):
            yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def errors_unprinted() -> Iterator[None]:
    """Suppress the error output of Ray processes that the body starts or joins.

    Ray's driver would print it to standard output, such as the last 20 lines of a dead raylet's
    log. `--json` writes JSON there. The search itself reports the errors that end it.
    """
    with _replaced(worker, "listen_error_messages", lambda *_: None):
        yield


@contextmanager
def _processes_apart() -> Iterator[None]:
    """Start Ray's processes in separate process groups; end them if the body fails.

    `timeout` and Slurm often send SIGTERM to the search's whole process group. Ray would then exit
    first, and a search without Ray cannot end cleanly. Linux ends these processes with the search
    in every case. On other systems they stay in the search's group, and Ray ends them.
    """
    apart = {"process_group": 0} if utils.detect_fate_sharing_support() else {}
    popen, started = services.ConsolePopen, list[Popen[bytes]]()

    def start(*arguments: Any, **options: Any) -> Popen[bytes]:
        started.append(popen(*arguments, **options, **apart))
        return started[-1]

    try:
        with _replaced(services, "ConsolePopen", start):
            yield
    except BaseException:
        with suppress(Exception):
            ray.shutdown()
        for process in started:
            _end(process, group=bool(apart))
        raise


def _end(process: "Popen[bytes]", *, group: bool) -> None:
    """Kill a process and, if `group` is set, its whole process group."""
    with suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


@contextmanager
def _replaced(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
