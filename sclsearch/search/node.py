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
from sclsearch.search.environment import versions
from sclsearch.store.objects import create, hasty, read
from sclsearch.store.places import Place, Storage
from sclsearch.store.studies import StudyStore

if TYPE_CHECKING:
    # A node answers before torch is imported there.
    from sclsearch.search.prepare import Prepared
    from sclsearch.search.study import Study

UNFIT_SECONDS = 30.0
"""An unfit node is always free: at once ready again, it would draw all seed runs to itself."""


class UnfitNodeError(Exception):
    """The machine can do no seed run of the study; another one may."""


@dataclass(frozen=True, slots=True)
class Needs:
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
    mark: Place
    model: Path
    sizes: Mapping[str, int]
    fetched: bool
    versions: Mapping[str, str]


def needs_of(prepared: "Prepared", mark: Place) -> Needs:
    """Returns what a study needs of every node, as it is on this machine."""
    study = prepared.study
    return Needs(
        storage=prepared.storage,
        mark=mark,
        model=study.model,
        sizes=_sizes(study.model),
        fetched=study.model != Path(study.model_name).expanduser().resolve(),
        versions=_versions(),
    )


def faults_here(needs: Needs, answer: Place, node: str) -> list[str]:
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
    here = _versions()
    other = [name for name, version in needs.versions.items() if here[name] != version]
    if other:
        faults.append(
            f"{', '.join(f'{name} {needs.versions[name]}' for name in other)}: every node must "
            f"have the driver's versions, but {node} has "
            f"{', '.join(f'{name} {here[name]}' for name in other)}. Start all from one image."
        )
    return faults


def model_here(study: "Study", store: StudyStore) -> Path:
    """Returns the model's folder on this machine, which may have joined the cluster just now.

    Raises:
        UnfitNodeError: It does not see the study in the storage, or cannot get the model.
    """
    try:
        _check_seen(store)
        if study.model.is_dir():
            return study.model
        return _fetched(study.model_name, study.model_digest)
    except (SclsearchError, UnfitNodeError, OSError) as error:
        time.sleep(UNFIT_SECONDS)
        raise UnfitNodeError(str(error)) from error


def _check_seen(store: StudyStore) -> None:
    if store.record() is None:
        raise UnfitNodeError(
            f"{store.folder}: every node must see the study, but {platform.node()} does not."
        )


@cache
def _fetched(name: str, digest: str) -> Path:
    folder = model_folder(name)
    if model_digest(folder) != digest:
        raise UnfitNodeError(
            f"--model {name}: every node must have the files that the study was made with, but "
            f"those in {folder} on {platform.node()} are others."
        )
    return folder


def _storage_fault(mark: Place, answer: Place) -> str:
    try:
        if read(hasty(mark)) is None:
            return "does not see what the driver wrote there"
        create(hasty(answer), {})
    except (SclsearchError, OSError) as error:
        return f"cannot: {error}"
    return ""


def _sizes(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}


def _versions() -> dict[str, str]:
    return {"python": ".".join(platform.python_version_tuple()[:2]), **versions()}
