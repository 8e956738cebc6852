"""Requirements for a node to train a study's seed runs: storage, model and versions."""

import platform
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.encoders.models import model_digest, model_folder
from sclsearch.errors import SclsearchError
from sclsearch.store.studies import StudyStore
from sclsearch.study.environment import versions

if TYPE_CHECKING:
    # A node must answer before it imports torch.
    from sclsearch.study.study import Study

UNFIT_SECONDS = 30.0
"""Seconds before an unfit node is ready again, so that it does not attract all seed runs."""


class UnfitNodeError(Exception):
    """The node cannot train seed runs of this study; another node may."""


def model_here(study: "Study", store: StudyStore, versions: Mapping[str, str]) -> Path:
    """Return the model's folder on this machine, which may have just joined the cluster.

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
    node, here = platform.node(), versions_here()
    if store.record() is None:
        raise UnfitNodeError(
            f"{store.folder}: {node} does not see the study. Give a folder that all nodes share, "
            "or s3://BUCKET/FOLDER."
        )
    if other := [name for name, version in driver.items() if here[name] != version]:
        raise UnfitNodeError(
            f"{', '.join(f'{name} {driver[name]}' for name in other)}: {node} has other versions: "
            f"{', '.join(f'{name} {here[name]}' for name in other)}. Start all nodes from one "
            "image."
        )


@cache
def _checked(there: Path, name: str, digest: str) -> Path:
    folder = there if there.is_dir() else model_folder(name)
    if model_digest(folder) != digest:
        raise UnfitNodeError(
            f"--model {name}: the files in {folder} on {platform.node()} differ from those of "
            "the study. Put the same files there."
        )
    return folder


def versions_here() -> dict[str, str]:
    """Return the versions of Python and of packages that can affect results."""
    return {"python": ".".join(platform.python_version_tuple()[:2]), **versions()}
