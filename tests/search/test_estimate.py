"""The time of a search: stored seed runs tell it before the encoder is timed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sclsearch.canonical import digest
from sclsearch.search.estimate import MEASURED, STORED, Estimate, estimate, finished
from sclsearch.search.prepare import prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.runs import Failure, SeedRun
from sclsearch.study.lengths import row_by_row, sampled
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.tokenized import tokenized
from sclsearch.training.pace import measured_pace
from sclsearch.training.spec import TrainingData
from sclsearch.training.workload import Workload, workload

Preparing = Callable[..., PreparedStudy]
Asked = Callable[..., StudySpec]
Seen = Callable[..., SeedRun]


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the machine 4 cores."""
    monkeypatch.setattr("sclsearch.ray_backend.startup.cores", lambda: 4)


@pytest.fixture
def hollow(tmp_path: Path) -> str:
    """Returns an encoder that cannot be timed: it has files and nothing in them."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return str(folder)


def told(prepared: PreparedStudy, *stored: SeedRun, threads: int = 1) -> Estimate:
    scheduler = Scheduler(prepared, dry=True)
    scheduler.refill()
    return estimate(prepared, scheduler, threads, lambda: stored)


def seed_run(
    prepared: PreparedStudy,
    seconds: float,
    fields: Mapping[str, Any] | None = None,
    started: float = 0.0,
    **origin: Any,
) -> SeedRun:
    """Returns a seed run of a study that took so long."""
    seed_run_spec = prepared.study.seed_run_spec(fields or {}, 0, prepared.splits[0])
    return SeedRun(
        seed_run_spec.key,
        seed_run_spec.identity,
        {**prepared.record.origin, **origin},
        evaluations=({"validation": {"confusion": [[1, 0], [0, 1]]}},),
        test={"confusion": [[1, 0], [0, 1]]},
        started=started,
        seconds=seconds,
        environment={"threads": 1},
    )


def test_stored_seed_runs_tell_the_time_and_the_encoder_is_not_timed(
    preparing: Preparing, asked: Asked, hollow: str
) -> None:
    prepared = preparing(asked(model=hollow), configs=4, seeds=3)
    runs = [seed_run(prepared, seconds) for seconds in (10.0, 60.0, 20.0)]
    assert told(prepared, *runs) == Estimate(20.0 * 12 / 2, 2, STORED)
    unknown = told(prepared)
    assert unknown.seconds is None
    assert unknown.basis.startswith(hollow)


def test_what_trains_twice_as_long_takes_twice_the_time(preparing: Preparing, asked: Asked) -> None:
    prepared = preparing(asked(settings={"max_length": 16}))
    (once,) = (told(prepared, seed_run(prepared, 10.0, {"epochs": 8})).seconds,)
    half = told(prepared, seed_run(prepared, 10.0, {"epochs": 4})).seconds
    assert once is not None
    assert half is not None
    # Evaluation after each epoch and one test: 8 * (3 * 60 + 20) + 20 rows and half of the 8.
    assert once == 10.0 * 4
    assert half / once == pytest.approx((8 * 200 + 20) / (4 * 200 + 20))


def test_what_trained_for_much_less_tells_no_time(preparing: Preparing, asked: Asked) -> None:
    prepared = preparing(asked(settings={"epochs": 40}), configs=4, seeds=3)
    short = [seed_run(prepared, 20.0, {"epochs": 1}, started=9.0) for _ in range(9)]
    alike = seed_run(prepared, 60.0, {"epochs": 20})
    assert told(prepared, *short).basis == MEASURED
    found = told(prepared, *short, alike)
    assert found.basis == STORED
    assert found.seconds == pytest.approx(2 * 60.0 * 12 / 2, rel=0.1)


def test_the_newest_seed_runs_count(preparing: Preparing) -> None:
    prepared = preparing()
    old = [seed_run(prepared, 500.0, started=1.0 + n) for n in range(20)]
    new = [seed_run(prepared, 5.0, started=100.0 + n) for n in range(9)]
    assert told(prepared, *new, *old).seconds == 5.0 * 4


@pytest.mark.parametrize(
    "change",
    [
        {"method": "ce", "space": None},
        {"scale": "laptop"},
        {"protocol": "supcl-seq-heldout", "task": "demo"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_seed_runs_of_another_method_scale_or_task_do_not_count(
    preparing: Preparing, asked: Asked, change: dict[str, Any]
) -> None:
    other = seed_run(preparing(asked(**change)), 1e6)
    assert told(preparing(), other).basis == MEASURED


def test_seed_runs_on_more_rows_or_threads_do_not_count(preparing: Preparing) -> None:
    prepared = preparing()
    assert told(prepared, seed_run(prepared, 1e6, train_size=7)).basis == MEASURED
    assert told(prepared, seed_run(prepared, 1e6), threads=2).basis == MEASURED


@pytest.mark.parametrize(
    ("asked_for", "address", "at_once", "waves"),
    [(1, None, 1, 8), (3, None, 3, 3), (50, None, 4, 2), (50, "auto", 50, 1)],
)
def test_seed_runs_at_a_time_share_the_wall_clock(
    preparing: Preparing, asked_for: int, address: str | None, at_once: int, waves: int
) -> None:
    prepared = preparing(concurrency=asked_for, address=address)
    assert told(prepared, seed_run(prepared, 7.0)) == Estimate(7.0 * waves, at_once, STORED)


def test_nothing_is_read_where_nothing_is_missing(preparing: Preparing, workers: Any) -> None:
    prepared = preparing()
    scheduler = Scheduler(prepared)
    workers.run_out(scheduler)

    def read() -> list[SeedRun]:
        raise AssertionError("a storage may have thousands")

    assert estimate(prepared, scheduler, 1, read) == Estimate(0.0, 2, "")


def test_without_stored_ones_the_encoder_is_timed_and_once_for_two_studies(
    preparing: Preparing, asked: Asked
) -> None:
    measured_pace.cache_clear()
    short = told(preparing(asked(settings={"epochs": 1})))
    long = told(preparing(asked(settings={"epochs": 10})))
    assert measured_pace.cache_info().misses == 1
    assert (short.at_once, short.basis) == (2, MEASURED)
    assert short.seconds is not None
    assert long.seconds is not None
    assert 0 < 2 * short.seconds < long.seconds < 10 * short.seconds


def test_what_is_stored_already_takes_no_time(preparing: Preparing, workers: Any) -> None:
    prepared = preparing()
    workers.run_out(Scheduler(prepared))
    assert told(prepared) == Estimate(0.0, 2, "")


def test_seed_runs_that_did_not_fail_are_finished_and_hold_no_predictions(
    preparing: Preparing,
) -> None:
    prepared = preparing()
    good = replace(seed_run(prepared, 3.0), predictions={"test": [0.0, 1.0]})
    storage = prepared.storage
    assert finished(storage) == []
    prepared.runs.put(good)
    other = {**good.identity, "seed": 1}
    failure = Failure("raised", "a test")
    prepared.runs.put(replace(good, key=digest(other), identity=other, failure=failure))
    assert finished(storage) == [replace(good, predictions={})]
    (Path(storage) / "runs" / f"{'d' * 64}.json").write_text("{", encoding="utf-8")
    assert finished(storage) == [replace(good, predictions={})]


@pytest.mark.parametrize("protocol", ["gunel-fewshot", "gunel-noisy"])
@pytest.mark.parametrize("method", ["ce", "cssl"])
def test_a_sample_tells_the_tokens_of_all_rows(
    tiny_bert: Path, tmp_path: Path, method: str, protocol: str
) -> None:
    spec = StudySpec(
        method=method, task="demo", model=str(tiny_bert), protocol=protocol, train_size=300
    )
    prepared = prepare_study(spec, RunOptions(storage=tmp_path, gpus_per_trial=0, seeds=3))
    study, splits = prepared.study, prepared.splits[0]
    seed_run_spec = study.seed_run_spec({}, 0, splits)

    def counted(task: Any) -> Workload:
        return workload(TrainingData(seed_run_spec, task))

    (part,), (whole,) = sampled(study, splits).values(), tokenized(study, [splits]).values()
    some, every = counted(part), counted(whole)
    assert some.trained == pytest.approx(every.trained, rel=0.1)
    assert some.read == pytest.approx(every.read, rel=0.1)
    assert (some.updates, some.rows) == (every.updates, every.rows)
    unread = (
        tokenized(study, [splits], most=50)[seed_run_spec.training.max_length]
        .splits["train"]
        .lengths
    )
    assert 0 < (unread > 0).sum() <= 50 * (1 + study.protocol.joined)
    rows = counted(row_by_row(study))
    assert rows.trained + rows.read == rows.rows == every.rows
