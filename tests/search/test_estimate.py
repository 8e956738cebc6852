"""Tests of the estimated time before a search, and of the time left in its progress line."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from sclsearch.search.callbacks import Progress
from sclsearch.search.plan import MEASURED, STORED, Estimate, estimate, finished
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.study.state import ConfigurationScore
from tests.studies import SEED_RUN_ORIGIN, MakeSpec, Prepare, Workers


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the machine 4 cores."""
    monkeypatch.setattr("sclsearch.ray_backend.start.cores", lambda: 4)


def estimated(prepared: Scheduler, *stored: SeedRun) -> Estimate:
    scheduler = replace(prepared, dry=True)
    scheduler.refill()
    return estimate(scheduler, lambda: stored)


def seed_run(
    prepared: Scheduler, seconds: float, fields: Mapping[str, Any] | None = None
) -> SeedRun:
    """Return a seed run of a study with a given duration."""
    spec = prepared.study.seed_run_spec(fields or {}, 0, prepared.splits[0])
    counts = {"confusion": [[1, 0], [0, 1]]}
    return SeedRun(
        spec.key,
        spec.identity,
        SEED_RUN_ORIGIN | dict(prepared.record.origin),
        evaluations=({"epoch": 1, "update": 4, "loss": {}, "validation": counts},),
        kept=0,
        test=counts,
        seconds=seconds,
        environment={"threads": 1},
    )


def test_the_mean_of_stored_seed_runs_is_used_without_loading_the_encoder(
    prepare: Prepare, make_spec: MakeSpec, tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = shutil.copytree(tiny_bert, tmp_path / "encoder")
    save_file({"none": torch.zeros(1)}, encoder / "model.safetensors")
    prepared = prepare(make_spec(model=str(encoder)), configs=4, seeds=3)
    runs = [seed_run(prepared, seconds, {"tau": 0.1 * seconds}) for seconds in (1.0, 6.0, 2.0)]
    result = estimated(prepared, *runs)
    assert (result.at_once, result.basis) == (2, STORED)
    assert result.seconds == pytest.approx(3.0 * 12 / 2)
    for run in (*runs[1:], replace(runs[0], failure=Failure("raised", "a test"))):
        prepared.runs.put(run)
    assert sorted(run.seconds for run in finished(prepared.storage)) == [2.0, 6.0]
    without = estimated(prepared)
    assert without.seconds is None
    assert without.basis.startswith(f"--model {encoder}: ")


def test_seed_runs_of_another_method_setting_size_or_threads_do_not_count(
    prepare: Prepare, make_spec: MakeSpec
) -> None:
    usual = seed_run(prepare(), 1e6)
    others = [
        seed_run(prepare(make_spec(method="ce", space=None)), 1e6),
        seed_run(prepare(make_spec(settings={"epochs": 3})), 1e6),
        replace(usual, environment={"threads": 2}),
        replace(usual, origin={**usual.origin, "train_size": 7}),
    ]
    for other in others:
        assert estimated(prepare(), other).basis == MEASURED


def test_the_measured_time_grows_with_the_rows_that_the_encoder_reads(
    prepare: Prepare, make_spec: MakeSpec
) -> None:
    simcse = make_spec(method="simcse", space="paper", train_size=10)
    few, many = (estimated(prepare(replace(simcse, unlabeled=n), seeds=3)) for n in (None, 50))
    assert few.basis == many.basis == MEASURED
    assert 0 < (few.seconds or 0) < (many.seconds or 0) < 100 * (few.seconds or 0)


SECONDS = 90.0


def test_stored_lost_skipped_and_late_seed_runs_do_not_change_the_time_left(
    prepare: Prepare, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("sclsearch.search.callbacks.time.monotonic", lambda: now)
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
