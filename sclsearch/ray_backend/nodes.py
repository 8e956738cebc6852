"""What a machine must have to do seed runs of a study: its storage, its model, its versions."""

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.encoders.models import FILES, model_digest, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.store.objects import create, read, without_retries
from sclsearch.store.storage import Storage, StoragePath
from sclsearch.store.studies import StudyStore
from sclsearch.study.environment import versions

if TYPE_CHECKING:
    # A node answers before torch is imported there.
    from sclsearch.study.prepared import PreparedStudy
    from sclsearch.study.study import Study

UNFIT_SECONDS = 30.0
"""An unfit node is always free: at once ready again, it would draw all seed runs to itself."""


class UnfitNodeError(Exception):
    """The machine can do no seed run of the study; another one may."""


@dataclass(frozen=True, slots=True)
class NodeRequirements:
    """What every node must have as the driver has it.

    Attributes:
        storage: The storage.
        mark: What the driver wrote there.
        model: The model's folder.
        sizes: Bytes of its files.
        fetched: Whether a node that lacks the folder gets the model by its name.
        versions: Of Python and of what figures depend on.
    """

    storage: Storage
    mark: StoragePath
    model: Path
    sizes: Mapping[str, int]
    fetched: bool
    versions: Mapping[str, str]


def node_requirements(prepared: "PreparedStudy", mark: StoragePath) -> NodeRequirements:
    """Returns what a study needs of every node, as it is on this machine."""
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
    """Returns why this machine can do no seed run; answers the driver's mark with its own.

    Args:
        needs: What the driver has.
        answer: Where the driver looks for this node's own mark.
        node: What the node is called.
    """
    faults = []
    seen = _storage_fault(needs.mark, answer)
    if seen:
        faults.append(
            f"--storage {needs.storage}: every node must read and write it, but {node} {seen}. "
            "Give a folder that all nodes share, or s3://BUCKET/FOLDER."
        )
    if not (needs.fetched and not needs.model.is_dir()) and _sizes(needs.model) != needs.sizes:
        faults.append(
            f"--model {needs.model}: every node must have its files, but {node} has none or "
            "others there. Put the folder where all nodes share it."
        )
    return faults + _version_faults(needs.versions, node)


def model_here(study: "Study", store: StudyStore, versions: Mapping[str, str]) -> Path:
    """Returns the model's folder on this machine, which may have joined the cluster just now.

    Args:
        study: The study.
        store: Its records.
        versions: Those of the driver.

    Raises:
        UnfitNodeError: It does not see the study in the storage, has another model or versions, or
            lacks the GPU that it has to have.
    """
    # Seed runs import torch, while a node that is asked for its faults must answer soon.
    from sclsearch.training.precision import device_for

    try:
        _check_seen(store)
        _check_versions(versions)
        device_for(study.numerics)
        return _checked(study.model, study.model_name, study.model_digest)
    except (SclsearchError, UnfitNodeError, OSError) as error:
        time.sleep(UNFIT_SECONDS)
        raise UnfitNodeError(str(error)) from error


def _check_seen(store: StudyStore) -> None:
    if store.record() is None:
        raise UnfitNodeError(
            f"{store.folder}: every node must see the study, but {platform.node()} does not."
        )


def _check_versions(driver: Mapping[str, str]) -> None:
    faults = _version_faults(driver, platform.node())
    if faults:
        raise UnfitNodeError("\n".join(faults))


@cache
def _checked(there: Path, name: str, digest: str) -> Path:
    folder = there if there.is_dir() else model_folder(name)
    if model_digest(folder) != digest:
        raise UnfitNodeError(
            f"--model {name}: every node must have the files that the study was made with, but "
            f"those in {folder} on {platform.node()} are others."
        )
    return folder


def _version_faults(driver: Mapping[str, str], node: str) -> list[str]:
    here = versions_here()
    other = [name for name, version in driver.items() if here[name] != version]
    if not other:
        return []
    return [
        f"{', '.join(f'{name} {driver[name]}' for name in other)}: every node must have the "
        f"driver's versions, but {node} has "
        f"{', '.join(f'{name} {here[name]}' for name in other)}. Start all from one image."
    ]


def _storage_fault(mark: StoragePath, answer: StoragePath) -> str:
    try:
        if read(without_retries(mark)) is None:
            return "does not see what the driver wrote there"
        create(without_retries(answer), {})
    except (SclsearchError, OSError) as error:
        return f"cannot: {error}"
    return ""


def _sizes(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}


def versions_here() -> dict[str, str]:
    """Returns the versions of Python and of what figures depend on."""
    return {"python": ".".join(platform.python_version_tuple()[:2]), **versions()}
