"""Header of every benchmark (machine and versions), tables in Markdown, scores in percent."""

import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

GIGA = 1024**3
MEGA = 1e6
PACKAGES = ("torch", "transformers")


def header(*packages: str) -> str:
    """Return the command, the machine and the versions, lines of Markdown."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    command = shlex.join(["python", "-m", module.name if module else "", *sys.argv[1:]])
    load = f"load {os.getloadavg()[0]:.1f} at the end"
    return f"    {command}\n\n{machine()}. {versions(*packages)}; {load}.\n"


def versions(*packages: str) -> str:
    """Return the versions of the engine, of Python and of packages in one line."""
    import torch

    from sclsearch.training.spec import ENGINE_VERSION, GPU_ENGINE_VERSION

    engine = GPU_ENGINE_VERSION if torch.cuda.is_available() else ENGINE_VERSION
    found = {name: _version(name) for name in (*PACKAGES, *packages)}
    listed = [f"{name} {version}" for name, version in found.items() if version]
    return ", ".join([f"Engine {engine}", f"Python {platform.python_version()}", *listed])


def machine() -> str:
    """Return processor, cores, memory and GPU in one line."""
    import torch

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGA
    found = f"{_processor()}, {cores()} cores, {memory:.0f} GB"
    return f"{found}, {torch.cuda.get_device_name()}" if torch.cuda.is_available() else found


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    for row in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(row)} |"


def peak_memory() -> float:
    """Return the peak memory of this process so far, MB."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / MEGA
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / MEGA


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    print(f"{machine()}. {versions('ray')}.")


def percent(share: float) -> str:
    """Return a score in percent."""
    return f"{100 * share:.1f}"
