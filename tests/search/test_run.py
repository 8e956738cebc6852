"""Tests of whole searches: first lines, custom methods, and a full or damaged storage."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sclsearch.ray_backend.worker import BrokenStorageError
from sclsearch.reports.report import report
from sclsearch.search.run import rerun
from sclsearch.training.evaluation import LOGISTIC, MAJORITY
from tests.in_process import in_process
from tests.workspace import Workspace, WriteSpace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
OPTIONS: dict[str, Any] = {"configs": 1, "seeds": 2, "study": "full", "tracking": "none"}
SPACE = """
method: Smoothed
source: a test
published: [{smoothing: 0.1}]
fixed: {epochs: 2, batch_size: 8, max_length: 16, learning_rate: 1e-2}
space:
  smoothing: {type: choice, values: [0.0, 0.1]}
"""


@pytest.fixture
def here(workspace: Workspace, tmp_path: Path) -> Workspace:
    """Return a workspace with an empty storage."""
    return workspace.elsewhere(tmp_path)


def test_a_search_completes_with_baselines_and_a_note_if_the_tracking_server_is_unreachable(
    here: Workspace, dead_port: int
) -> None:
    server = f"http://127.0.0.1:{dead_port}"
    with in_process():
        result = here.run(configs=1, seeds=1, tracking=server)
    assert (result.ending, result.done, result.failed) == ("complete", 1, 0)
    assert result.tracking is not None
    assert result.tracking.startswith(f"{server}: ")
    found = report(here.storage, result.name)
    assert [line.origin for line in found.baselines] == [MAJORITY, LOGISTIC]
    assert all(line.score is not None for line in found.baselines)


@pytest.mark.ray
def test_a_custom_method_is_searched_stored_and_rerun(
    workspace: Workspace, custom_method: str, write_space: WriteSpace, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(custom_method, encoding="utf-8")
    method = f"{file}:Smoothed"
    own = workspace.elsewhere(tmp_path, method=method, space=write_space(SPACE))
    result = own.run(configs=1, seeds=1, tracking="none")
    assert (result.done, result.failed) == (1, 0)
    assert report(own.storage, result.name).method == "Smoothed"
    (key,) = own.runs()
    assert rerun(own.storage, key, method=method).differing == ()


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
