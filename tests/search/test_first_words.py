"""Tests of the lines before the first seed run, the baselines and an unreachable MLflow server."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.search.run import free_slots_warning, run
from sclsearch.study.spec import RunOptions
from sclsearch.training.evaluation import LOGISTIC, MAJORITY
from tests.in_process import in_process
from tests.workspace import Workspace


def no_ray(address: str | None) -> None:
    raise SclsearchError("no Ray")


@pytest.mark.slow
def test_each_step_before_the_first_seed_run_is_announced(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sclsearch.ray_backend.start.started_ray", no_ray)
    monkeypatch.setattr("sclsearch.ray_backend.start.unusable_gpu", lambda: "an unusable GPU")
    console = Console(width=200, record=True, file=StringIO())
    spec = replace(workspace.spec, splits=2)
    with pytest.raises(SclsearchError, match="no Ray"):
        run(spec, RunOptions(storage=tmp_path / "storage", seeds=2, tracking="none"), console)
    lines = console.export_text().splitlines()
    steps = [line for line in lines if line.endswith(" …")]
    assert lines[0] == "an unusable GPU"
    assert any(line.startswith("validation: ") for line in lines)  # the notes of a dry run
    assert steps == [f"Loading {workspace.spec.model} …", "Tokenizing …", "Starting Ray …"]


@pytest.mark.slow
def test_a_search_completes_with_baselines_and_a_note_if_the_tracking_server_is_unreachable(
    workspace: Workspace, tmp_path: Path, dead_port: int
) -> None:
    here = workspace.elsewhere(tmp_path)
    server = f"http://127.0.0.1:{dead_port}"
    with in_process():
        result = here.run(configs=1, seeds=1, tracking=server)
    assert (result.ending, result.done, result.failed) == ("complete", 1, 0)
    assert result.tracking is not None
    assert result.tracking.startswith(f"{server}: ")
    found = report(here.storage, result.name)
    assert [line.origin for line in found.baselines] == [MAJORITY, LOGISTIC]
    assert all(line.score is not None for line in found.baselines)


@pytest.mark.parametrize(
    ("concurrency", "missing", "expected"),
    [
        (64, 5000, "at most 64 run at a time. Raise --concurrency."),
        (800, 20, "at most 20 run at a time. Use a smaller cluster."),
    ],
)
def test_free_slots_of_a_cluster_give_a_warning_with_advice(
    concurrency: int, missing: int, expected: str
) -> None:
    warning = free_slots_warning(800, concurrency, missing)
    assert warning == f"The cluster has room for 800 seed runs, but {expected}"
