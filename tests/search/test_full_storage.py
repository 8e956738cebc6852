"""Tests of a storage that cannot be written or is damaged: the search ends and can be resumed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend.worker import BrokenStorageError
from tests.in_process import in_process
from tests.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
OPTIONS: dict[str, Any] = {"configs": 1, "seeds": 2, "study": "full", "tracking": "none"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ESTALE])
def test_a_storage_error_is_not_a_failure_of_the_seed_run(
    workspace: Workspace, tmp_path: Path, number: int
) -> None:
    here = workspace.elsewhere(tmp_path)

    def broken(target: Path, _value: Any) -> bool:
        raise OSError(number, os.strerror(number), str(target))

    with in_process():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sclsearch.store.runs.create", broken)
            with pytest.raises(BrokenStorageError, match=os.strerror(number)):
                here.run(**OPTIONS)
        assert here.runs() == {}
        finished = here.run(**OPTIONS)
    assert (finished.ending, finished.done, finished.failed) == ("complete", 2, 0)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [cut, folder])
def test_a_damaged_seed_run_is_set_aside_and_trained_again(
    workspace: Workspace, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    here = workspace.elsewhere(tmp_path)
    with in_process():
        here.run(**OPTIONS)
        before = here.runs()
        damage(here.storage / "runs" / f"{min(before)}.json")
        finished = here.run(**OPTIONS)
    assert (finished.done, finished.trained, finished.failed) == (2, 1, 0)
    assert here.runs().keys() == before.keys()
    assert len([*(here.storage / "runs" / "damaged").iterdir()]) == 1
