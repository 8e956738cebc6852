"""Tests of whole searches: a tracking server that is away, and a broken storage."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend.worker import BrokenStorageError
from sclsearch.reports.report import report
from sclsearch.training.evaluation import LOGISTIC, MAJORITY
from tests.studies import in_process
from tests.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
OPTIONS: dict[str, Any] = {"configs": 1, "seeds": 2, "study": "full", "tracking": "none"}


@pytest.fixture
def here(workspace: Workspace, tmp_path: Path) -> Workspace:
    """Return a workspace with an empty storage."""
    return workspace.elsewhere(tmp_path)


def test_a_search_completes_with_baselines_and_a_note_if_the_tracking_server_is_unreachable(
    here: Workspace,
) -> None:
    server = "http://127.0.0.1:9"
    with in_process():
        result = here.run(configs=1, seeds=1, tracking=server)
    assert (result.ending, result.done, result.failed) == ("complete", 1, 0)
    assert result.tracking is not None
    assert result.tracking.startswith(f"{server}: ")
    found = report(here.storage, result.name)
    assert [line.origin for line in found.baselines] == [MAJORITY, LOGISTIC]
    assert all(line.score is not None for line in found.baselines)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ESTALE])
def test_a_storage_error_is_not_a_failure_of_the_seed_run(here: Workspace, number: int) -> None:
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
