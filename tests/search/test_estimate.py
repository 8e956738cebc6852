"""Tests of the estimated time before a search, and of the time left in its progress line."""

import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from sclsearch.search.plan import Estimate, estimate
from sclsearch.search.progress import Progress
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure
from sclsearch.study.state import ConfigurationScore
from tests.studies import MakeSpec, Prepare, Workers


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the machine 4 cores."""
    monkeypatch.setattr("sclsearch.ray_backend.start.cores", lambda: 4)


def estimated(prepared: Scheduler) -> Estimate:
    scheduler = replace(prepared, dry=True)
    scheduler.refill()
    return estimate(scheduler)


def test_without_a_readable_encoder_there_is_no_estimate_but_its_reason(
    prepare: Prepare, make_spec: MakeSpec, tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = shutil.copytree(tiny_bert, tmp_path / "encoder")
    save_file({"none": torch.zeros(1)}, encoder / "model.safetensors")
    found = estimated(prepare(make_spec(model=str(encoder))))
    assert found.seconds is None
    assert found.basis.startswith(f"--model {encoder}: ")


def test_the_measured_time_grows_with_the_rows_that_the_encoder_reads(
    prepare: Prepare, make_spec: MakeSpec
) -> None:
    simcse = make_spec(method="simcse", space="paper", train_size=10)
    few, many = (estimated(prepare(replace(simcse, unlabeled=n), seeds=3)) for n in (None, 50))
    assert 0 < (few.seconds or 0) < (many.seconds or 0) < 100 * (few.seconds or 0)


SECONDS = 90.0


def test_stored_lost_skipped_and_late_seed_runs_do_not_change_the_time_left(
    prepare: Prepare, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("sclsearch.search.progress.time.monotonic", lambda: now)
    (task,) = workers.running(prepare(), 1)
    run, progress = workers.trained(task), Progress(Console(file=StringIO()), 11)

    def line(finished: list[float], ages: list[float]) -> str:
        progress.tick(finished, ages)
        return progress.line().plain

    progress.start()
    progress.skipped = 2
    for _ in range(3):
        progress.on_seed_run(task, run, stored=True)
    now = SECONDS
    progress.on_seed_run(task, replace(run, failure=Failure("raised", "a test")), stored=False)
    assert line([], [0.0]) == "4/11 seed runs · 3 stored · 1 failed · 1:30"
    now = 2 * SECONDS
    progress.on_seed_run(task, run, stored=False)
    counts = "5/11 seed runs · 3 stored · 1 failed"
    assert line([SECONDS], [0.0]) == f"{counts} · 3:00 · 6:00 left"
    for number, score in ((98, -0.2), (99, -0.1234), (97, -0.3)):
        progress.on_score(ConfigurationScore(number, score, 0.5, None, None))
    now = 8 * SECONDS
    best = "best -0.1234 (#99)"
    assert line([SECONDS], [6 * SECONDS]) == f"{counts} · {best} · 12:00 · 4:30 left"
    assert line([SECONDS], [0.0, 0.0]).endswith("3:00 left")
    progress.wanted = 7  # the last seed run has finished, and its trial not yet
    assert line([SECONDS], [SECONDS]) == f"5/7 seed runs · 3 stored · 1 failed · {best} · 12:00"
