"""Requirements for a node to train a study's seed runs: storage, model and versions."""

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.encoders.models import FILES, model_digest, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.store.objects import create, read
from sclsearch.store.storage import Storage, StoragePath
from sclsearch.store.studies import StudyStore
from sclsearch.study.environment import versions

if TYPE_CHECKING:
    # A node must answer before it imports torch.
    from sclsearch.study.prepared import PreparedStudy
    from sclsearch.study.study import Study

UNFIT_SECONDS = 30.0
"""Seconds before an unfit node is ready again, so that it does not attract all seed runs."""


class UnfitNodeError(Exception):
    """The node cannot train seed runs of this study; another node may."""


@dataclass(frozen=True, slots=True)
class NodeRequirements:
    """Requirements that every node must meet, as measured on the driver.

    Attributes:
        storage: The storage of the study.
        mark: The marker file that the driver wrote there.
        model: The model's folder.
        sizes: Size in bytes of each of its files.
        fetched: Whether a node without the folder downloads the model by its name.
        versions: Versions of Python and of packages that can affect results.
    """

    storage: Storage
    mark: StoragePath
    model: Path
    sizes: Mapping[str, int]
    fetched: bool
    versions: Mapping[str, str]


def node_requirements(prepared: "PreparedStudy", mark: StoragePath) -> NodeRequirements:
    """Return the requirements of a study for every node, as measured on this machine."""
    study = prepared.study
    return NodeRequirements(
        storage=prepared.storage,
        mark=mark,
        model=study.model,
        sizes=_sizes(study.model),
        fetched=study.model_place != str(study.model),
        versions=versions_here(),
    )


def node_errors(needs: NodeRequirements, answer: StoragePath, node: str) -> list[str]:
    """Return this node's errors; answer the driver's marker file with a marker of its own.

    Args:
        needs: The driver's requirements.
        answer: Path at which the driver looks for this node's marker.
        node: Name of the node, for error messages.
    """
    faults = []
    seen = _storage_fault(needs.mark, answer)
    if seen:
        faults.append(
            f"--storage {needs.storage}: {node} {seen}. Give a folder that all nodes share, or "
            "s3://BUCKET/FOLDER."
        )
    if not (needs.fetched and not needs.model.is_dir()) and _sizes(needs.model) != needs.sizes:
        faults.append(
            f"--model {needs.model}: {node} has different files there, or none. Put the folder "
            "where all nodes share it."
        )
    return faults + _version_faults(needs.versions, node)


def model_here(study: "Study", store: StudyStore, versions: Mapping[str, str]) -> Path:
    """Return the model's folder on this machine, which may have just joined the cluster.

    Args:
        study: The study.
        store: The study's records.
        versions: The driver's versions.

    Raises:
        UnfitNodeError: This machine does not see the study in the storage, has another model or
            other versions, or lacks a required GPU.
    """
    # Only seed runs import torch; a node that reports its errors must answer quickly.
    from sclsearch.training.device import backend_for

    try:
        _check_machine(store, versions)
        backend_for(study.numerics)
        return _checked(study.model, study.model_name, study.model_digest)
    except (SclsearchError, UnfitNodeError, OSError) as error:
        time.sleep(UNFIT_SECONDS)
        raise UnfitNodeError(str(error)) from error


def _check_machine(store: StudyStore, driver: Mapping[str, str]) -> None:
    node = platform.node()
    if store.record() is None:
        raise UnfitNodeError(
            f"{store.folder}: {node} does not see the study. Give a folder that all nodes share, "
            "or s3://BUCKET/FOLDER."
        )
    if faults := _version_faults(driver, node):
        raise UnfitNodeError("\n".join(faults))


@cache
def _checked(there: Path, name: str, digest: str) -> Path:
    folder = there if there.is_dir() else model_folder(name)
    if model_digest(folder) != digest:
        raise UnfitNodeError(
            f"--model {name}: the files in {folder} on {platform.node()} differ from those of "
            "the study. Put the same files there."
        )
    return folder


def _version_faults(driver: Mapping[str, str], node: str) -> list[str]:
    here = versions_here()
    other = [name for name, version in driver.items() if here[name] != version]
    if not other:
        return []
    return [
        f"{', '.join(f'{name} {driver[name]}' for name in other)}: {node} has other versions: "
        f"{', '.join(f'{name} {here[name]}' for name in other)}. Start all nodes from one image."
    ]


def _storage_fault(mark: StoragePath, answer: StoragePath) -> str:
    try:
        if read(mark.without_retries()) is None:
            return "does not see what the driver wrote there"
        create(answer.without_retries(), {})
    except (SclsearchError, OSError) as error:
        return f"cannot read or write it: {error}"
    return ""


def _sizes(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}


def versions_here() -> dict[str, str]:
    """Return the versions of Python and of packages that can affect results."""
    return {"python": ".".join(platform.python_version_tuple()[:2]), **versions()}
