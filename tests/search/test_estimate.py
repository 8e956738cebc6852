"""Tests of the estimated time of a search, from stored seed runs or from a timed update."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from sclsearch.canonical import digest
from sclsearch.search.plan import MEASURED, STORED, Estimate, estimate, finished
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.training.spec import seed_run_costs
from tests.workspace import MakeSpec, Prepare, Workers


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the machine 4 cores."""
    monkeypatch.setattr("sclsearch.ray_backend.start.cores", lambda: 4)


def estimated(prepared: Scheduler, *stored: SeedRun) -> Estimate:
    scheduler = replace(prepared, dry=True)
    scheduler.refill()
    return estimate(scheduler, lambda: stored)


def seed_run(
    prepared: Scheduler, seconds: float, fields: Mapping[str, Any] | None = None, **origin: Any
) -> SeedRun:
    """Return a seed run of a study with a given duration."""
    spec = prepared.study.seed_run_spec(fields or {}, 0, prepared.splits[0])
    return SeedRun(
        spec.key,
        spec.identity,
        {**prepared.record.origin, **origin},
        evaluations=({"validation": {"confusion": [[1, 0], [0, 1]]}},),
        test={"confusion": [[1, 0], [0, 1]]},
        started=0.0,
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
    without = estimated(prepared)
    assert without.seconds is None
    assert without.basis.startswith(f"--model {encoder}: model.safetensors lacks")


@pytest.mark.parametrize(
    "change",
    [{"method": "ce", "space": None}, {"scale": "laptop"}, {"settings": {"epochs": 3}}],
    ids=lambda change: next(iter(change)),
)
def test_seed_runs_of_another_method_scale_or_setting_do_not_count(
    prepare: Prepare, make_spec: MakeSpec, change: dict[str, Any]
) -> None:
    other = seed_run(prepare(make_spec(**change)), 1e6)
    assert estimated(prepare(), other).basis == MEASURED


def test_seed_runs_on_more_rows_or_threads_do_not_count(prepare: Prepare) -> None:
    prepared = prepare()
    assert estimated(prepared, seed_run(prepared, 1e6, train_size=7)).basis == MEASURED
    assert estimated(prepare(cpus_per_trial=2), seed_run(prepared, 1e6)).basis == MEASURED


@pytest.mark.parametrize(
    ("concurrency", "address", "at_once", "waves"),
    [(1, None, 1, 8), (3, None, 3, 3), (50, None, 4, 2), (50, "auto", 50, 1)],
)
def test_concurrent_seed_runs_share_the_wall_clock(
    prepare: Prepare, concurrency: int, address: str | None, at_once: int, waves: int
) -> None:
    prepared = prepare(concurrency=concurrency, address=address)
    result = estimated(prepared, seed_run(prepared, 7.0))
    assert (result.at_once, result.basis) == (at_once, STORED)
    assert result.seconds == pytest.approx(7.0 * waves)


def test_a_complete_study_takes_no_time_and_reads_no_stored_seed_runs(
    prepare: Prepare, workers: Workers
) -> None:
    prepared = prepare()
    scheduler = replace(prepared)
    workers.run_out(scheduler)

    def read() -> list[SeedRun]:
        raise AssertionError("a storage may have thousands")

    assert estimate(scheduler, read) == Estimate(0.0, 2, "")
    assert estimated(prepared) == Estimate(0.0, 2, "")


@pytest.mark.parametrize(
    ("method", "settings", "more", "least"),
    [
        ("ce", {"epochs": 1}, {"epochs": 20}, 5),
        ("supcl-seq", {"probe_epochs": 1}, {"probe_epochs": 90}, 1),
    ],
)
def test_the_measured_time_grows_with_the_rows_that_the_encoder_reads(
    prepare: Prepare,
    make_spec: MakeSpec,
    method: str,
    settings: dict[str, Any],
    more: dict[str, Any],
    least: float,
) -> None:
    short, long = (
        estimated(prepare(make_spec(method=method, space="paper", settings=given)))
        for given in (settings, more)
    )
    assert short.basis == long.basis == MEASURED
    assert short.seconds is not None
    assert long.seconds is not None
    assert 0 < least * short.seconds <= long.seconds < 100 * short.seconds


def test_unlabeled_texts_count_in_stages_without_labels(
    prepare: Prepare, make_spec: MakeSpec
) -> None:
    few, many = (
        estimated(
            prepare(
                make_spec(method="simcse", space=None, train_size=10, unlabeled=rows),
                seeds=3,
            )
        )
        for rows in (None, 50)
    )
    assert few.seconds is not None
    assert many.seconds is not None
    assert many.seconds > few.seconds


def test_finished_seed_runs_are_those_that_did_not_fail(prepare: Prepare) -> None:
    prepared = prepare()
    good = replace(seed_run(prepared, 3.0), predictions={"test": [0.0, 1.0]})
    storage = prepared.storage
    assert finished(storage) == []
    prepared.runs.put(good)
    other = {**good.identity, "seed": 1}
    failure = Failure("raised", "a test")
    prepared.runs.put(replace(good, key=digest(other), identity=other, failure=failure))
    (Path(storage) / "runs" / f"{'d' * 64}.json").write_text("{", encoding="utf-8")
    assert finished(storage) == [replace(good, predictions={})]


@pytest.mark.parametrize("tested", [True, False])
def test_only_the_winners_tests_add_time_if_only_they_are_tested(
    prepare: Prepare, tested: bool
) -> None:
    tests = {way: prepare(configs=4, seeds=3, test_scores=way) for way in ("all", "winner")}
    fields, splits = {"tau": 0.5}, tests["all"].splits[0]
    training, test = seed_run_costs(tests["all"].study.seed_run_spec(fields, 0, splits))
    assert test > 0
    run = seed_run(tests["all"], training + tested * test, fields)
    run = run if tested else replace(run, test={})
    every, winner = (estimated(prepared, run).seconds for prepared in tests.values())
    assert every == pytest.approx(6 * (training + test))
    assert winner == pytest.approx(6 * training + 2 * (training + test))


def test_a_decided_search_takes_the_time_of_its_repetitions(
    prepare: Prepare, workers: Workers
) -> None:
    prepared = prepare(configs=3, seeds=3, test_scores="winner")
    scheduler = replace(prepared)
    workers.decide(scheduler)
    training, test = seed_run_costs(prepared.study.seed_run_spec({}, 0, prepared.splits[0]))
    run = seed_run(prepared, training + test, scheduler.state.configurations[0].fields)
    result = estimate(scheduler, lambda: [run])
    assert result.seconds == pytest.approx(2 * (training + test))


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), MemoryError()])
def test_without_memory_for_the_timed_update_there_is_no_estimate(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def update(*_: object) -> float:
        raise error

    monkeypatch.setattr("sclsearch.search.plan._update_seconds", update)
    assert estimated(prepare()).seconds is None
