"""Tests of a storage that cannot be written or is damaged: the search ends and can be resumed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend.worker import BrokenStorageError
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import create
from tests.in_process import in_process
from tests.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
OPTIONS: dict[str, Any] = {"configs": 1, "seeds": 2, "study": "full", "tracking": "none"}


@pytest.mark.parametrize("fault", ["ENOSPC", "ESTALE"])
def test_a_storage_error_is_not_a_failure_of_the_seed_run(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    here, number = workspace.elsewhere(tmp_path), getattr(errno, fault)

    def broken(target: Path, value: Any) -> bool:
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr("sclsearch.store.runs.create", broken)
    with in_process(), pytest.raises(BrokenStorageError, match=os.strerror(number)):
        here.run(**OPTIONS)
    assert RunStore(here.storage).keys() == []
    monkeypatch.setattr("sclsearch.store.runs.create", create)
    with in_process():
        finished = here.run(**OPTIONS)
    assert (finished.ending, finished.done, finished.failed) == ("complete", 2, 0)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "folder": folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_seed_run_is_set_aside_and_trained_again(
    workspace: Workspace, tmp_path: Path, damage: str
) -> None:
    here = workspace.elsewhere(tmp_path)
    with in_process():
        here.run(**OPTIONS)
        before = here.runs()
        file = Path(here.storage) / "runs" / f"{min(before)}.json"
        DAMAGES[damage](file)
        finished = here.run(**OPTIONS)
    assert (finished.done, finished.trained, finished.failed) == (2, 1, 0)
    assert here.runs().keys() == before.keys()
    assert len([*(file.parent / "damaged").iterdir()]) == 1
