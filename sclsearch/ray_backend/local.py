"""A Ray of our own on this machine: out of reach of others, and started whole or not at all."""

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
    """Starts Ray on this machine; a second time where its processes are not there in time.

    Args:
        cores: Cores that seed runs may use.
        quiet: Options that keep it from writing to the terminal.

    Raises:
        SclsearchError: It did not start the second time either.
    """
    try:
        _start(cores, quiet)
    except Exception:
        try:
            _start(cores, quiet)
        except Exception as error:
            raise SclsearchError(
                "Ray: its processes must start on this machine, but twice they did not: "
                f"{first_sentence(str(error))}. The load is {os.getloadavg()[0]:.0f} on {cores} "
                "cores: if that is much, wait until it is less, else read Ray's logs in "
                f"{get_default_ray_temp_dir()}/session_latest/logs. The same command goes on."
            ) from error


def _start(cores: int, quiet: Mapping[str, Any]) -> None:
    with _loopback(), _processes_apart():
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Keeps what SIGTERM means while the body starts or joins Ray, and afterwards.

    Ray would leave at once, in the middle of its start. Its core, which is no Python, also takes
    the signal itself, until it is taken back.
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
    """Keep a Ray that the body starts or joins from printing its processes' errors.

    Its driver would write them to standard output, such as the last 20 lines of a dead raylet's
    log, where `--json` writes JSON. The search itself reports what ends it.
    """
    with _replaced(worker, "listen_error_messages", lambda *_: None):
        yield


@contextmanager
def _loopback() -> Iterator[None]:
    """Lets Ray start on 127.0.0.1.

    Asked for that address, Ray takes the machine's own and listens on every interface. It keeps
    to the loopback where it cannot be a cluster, as on a Mac.
    """
    with _replaced(ray_constants, "ENABLE_RAY_CLUSTER", False):
        yield


@contextmanager
def _processes_apart() -> Iterator[None]:
    """Starts Ray's processes in process groups of their own; ends them if the body fails.

    SIGTERM often goes to the search's whole group, as `timeout` and Slurm send it. Ray would be
    gone first then, and a search without Ray cannot end in order. Linux ends them with the search,
    however that ends; elsewhere Ray itself does, by the group that they are left in.
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
    """Ends a process at once, and what it has started in its group."""
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
