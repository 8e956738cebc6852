"""Header of every benchmark (command, machine and versions), tables in Markdown, peak memory."""

import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from sclsearch.training.spec import ENGINE_VERSION, GPU_ENGINE_VERSION


def header(*packages: str) -> str:
    """Return the command, the machine and the versions, lines of Markdown."""
    module = getattr(sys.modules["__main__"].__spec__, "name", "")
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    engine = GPU_ENGINE_VERSION if torch.cuda.is_available() else ENGINE_VERSION
    listed = [f"Engine {engine}", f"Python {platform.python_version()}"]
    listed += [f"{name} {version(name)}" for name in ("torch", "transformers", *packages)]
    load = f"load {os.getloadavg()[0]:.1f} at the end"
    return f"    {command}\n\n{machine()}. {', '.join(listed)}; {load}.\n"


def machine() -> str:
    """Return processor, cores, memory and GPU in one line."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = [names[0] if names else platform.machine(), f"{cores()} cores", f"{memory:.0f} GB"]
    return ", ".join(
        [*found, *([torch.cuda.get_device_name()] if torch.cuda.is_available() else [])]
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    for row in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(row)} |"


def percent(share: float) -> str:
    """Return a score in percent."""
    return f"{100 * share:.1f}"


def peak_memory() -> float:
    """Return the peak memory of this process so far, MB."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
