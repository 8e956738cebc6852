"""Tests of the searcher between Ray Tune and the scheduler: results and failures of trials."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayTaskError
from torch import OutOfMemoryError

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.failures import WorkerFailure
from sclsearch.ray_backend.tuner import SeedSearcher, Watchdog, classified
from sclsearch.ray_backend.worker import BrokenStorageError, UnfitNodeError, _seldom
from sclsearch.search.callbacks import Callback
from sclsearch.store import remote
from sclsearch.store.remote import StorageError, UnavailableError
from sclsearch.store.runs import RunStore
from sclsearch.store.studies import StudyStore
from tests.studies import Prepare, Workers

ENDED = {"key": "", "node_ip": "10.0.0.1"}


def test_a_trial_that_ray_ends_twice_keeps_its_first_error(prepare: Prepare) -> None:
    scheduler = prepare()
    searcher = SeedSearcher(scheduler)
    searcher.suggest("t1")
    Path(str(scheduler.runs.folder)).touch()  # as if the storage were unmounted
    searcher.on_trial_complete("t1", {**ENDED, "failure": ("untestable", "no")})
    first = searcher.fault
    searcher.on_trial_complete("t1", error=True)
    assert isinstance(first, NotADirectoryError)
    assert searcher.fault is first


@pytest.mark.timeout(60)
def test_an_outage_of_the_store_delays_new_configurations_and_no_result_until_it_is_too_long(
    prepare: Prepare, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("s3://a/b: its store does not respond")

    scheduler = prepare(configs=9, seeds=1)
    searcher = SeedSearcher(scheduler)
    searcher.suggest("t1")
    with monkeypatch.context() as outage:
        for store, call in ((RunStore, "get"), (RunStore, "get_valid"), (StudyStore, "add")):
            outage.setattr(store, call, away)
        run = workers.trained(searcher.tasks["t1"])
        searcher.on_trial_complete("t1", {**ENDED, "run": run})
        assert len(scheduler.state.seed_runs) == 1
        while searcher.suggest("t2"):
            run = workers.trained(searcher.tasks["t2"])
            searcher.on_trial_complete("t2", {**ENDED, "run": run})
        assert searcher.outage.waits
        monkeypatch.setattr(remote, "PATIENCE_SECONDS", 0.0)
        while searcher.fault is None:
            searcher.suggest("t3")
    assert isinstance(searcher.fault, UnavailableError)


def test_a_failure_that_a_worker_reports_is_that_of_its_seed_run(prepare: Prepare) -> None:
    scheduler = prepare(configs=1, seeds=1)
    searcher = SeedSearcher(scheduler)
    for trial in ("t1", "t2"):
        searcher.suggest(trial)
        searcher.on_trial_complete(trial, {**ENDED, "failure": ("out-of-memory", "2 GiB")})
    ((_, run),) = scheduler.state.seed_runs.items()
    assert run.failure is not None
    assert (run.failure.cause, run.failure.message) == ("out-of-memory", "2 GiB")


ADVICE = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


@pytest.mark.parametrize(
    ("origin", "cause", "message"),
    [
        (OutOfMemoryError("CUDA out of memory. x"), "out-of-memory", "OutOfMemoryError: CUDA"),
        (UnfitNodeError("no"), "node-unfit", "no"),
        (StorageError("s3://a/b: away"), "storage-lost", "s3://a/b: away"),
        (BrokenStorageError("/s: full"), "storage-broken", "BrokenStorageError: /s: full"),
        (RuntimeError("device-side assert triggered" + ADVICE), "gpu-assert", "RuntimeError: dev"),
        (RuntimeError("CUDA error: unknown error" + ADVICE), "worker-lost", "RuntimeError: CUDA"),
    ],
)
def test_an_exception_in_a_worker_has_its_cause_by_type(
    origin: Exception, cause: str, message: str
) -> None:
    text = "ray::train() (pid=12, ip=10.0.0.7)"
    raised = RayTaskError("train", text, origin, "ray::train", 12, "10.0.0.7", "f", "ab")
    found = classified(raised.as_instanceof_cause())
    assert (found.cause, found.node) == (cause, "10.0.0.7")
    assert found.message.startswith(message)
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RayActorError(error_msg="1 worker(s) were killed"), "worker-lost"),
        (RayActorError(error_msg="its node has died. Node Id: 12"), "node-lost"),
        (RayActorError(error_msg="its node was terminated: a spot instance"), "node-lost"),
        (ActorUnavailableError("RPC error: Socket closed.", None), "worker-silent"),
        (ActorDiedError(), "worker-lost"),
    ],
)
def test_the_death_of_a_worker_has_its_cause(error: Exception, cause: str) -> None:
    found = classified(error)
    assert (found.cause, found.node) == (cause, "")
    located = RayActorError(error_msg=f"{error}\n\tpid: 12\n\tip: 10.0.0.7\nThe actor")
    assert classified(located).node == "10.0.0.7"


def test_the_search_ends_if_all_nodes_that_a_seed_run_fits_are_unfit(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = {"10.0.0.1": {"CPU": 8.0}, "10.0.0.2": {"CPU": 8.0, "GPU": 1.0}}
    nodes = [{"NodeManagerAddress": name, "Resources": room} for name, room in rooms.items()]
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, **node} for node in nodes])
    searcher = SeedSearcher(prepare(), gpus=0.5)
    for address, ended in (("10.0.0.1", False), ("10.0.0.2", True)):
        searcher.suggest(address)
        searcher.causes[address] = WorkerFailure("node-unfit", "other versions", address)
        searcher.on_trial_complete(address, error=True)
        assert isinstance(searcher.fault, SclsearchError) == ended


def test_an_evaluation_of_a_running_trial_reaches_the_callbacks(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Any] = []
    callback = Callback()
    monkeypatch.setattr(callback, "on_evaluation", lambda *found: received.append(found))
    scheduler = prepare()
    scheduler.callbacks = [callback]
    searcher = SeedSearcher(scheduler)
    searcher.suggest("a")
    watchdog = Watchdog(searcher, lambda *_: None, lambda: None)
    reported: list[dict[str, Any]] = []
    monkeypatch.setattr("sclsearch.ray_backend.worker.LIVE_SECONDS", 0.0)
    _seldom(reported.append)(0.25, {"update": 20})
    monkeypatch.setattr("sclsearch.ray_backend.worker.LIVE_SECONDS", 60.0)
    _seldom(reported.append)(0.5, {"update": 40})
    monkeypatch.setattr("sclsearch.ray_backend.worker.PROGRESS_SECONDS", 0.0)
    _seldom(reported.append)(0.75)
    clock = [100.0]
    monkeypatch.setattr("sclsearch.ray_backend.tuner.time.monotonic", lambda: clock[-1])
    trial: Any = SimpleNamespace(trial_id="a")
    watchdog.on_trial_start(trial=trial)
    for now, result in zip((105.0, 115.0), reported, strict=True):
        clock.append(now)
        watchdog.on_trial_result(trial=trial, result=result)
    assert received == [(searcher.tasks["a"], {"update": 20})]
    clock.append(116.0)
    monkeypatch.setattr(watchdog, "tick", lambda _, running: received.extend(running))
    watchdog.on_step_end()
    assert received[1:] == [(16.0, 0.75, 20.0)]  # half of the updates took 10 s


def test_a_timeout_counts_from_the_start_of_training_and_no_wall_clock_matters(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1e12)
    monkeypatch.setattr("sclsearch.ray_backend.tuner._TICK_SECONDS", 0.0)
    searcher = SeedSearcher(prepare(time_budget=60, trial_timeout=1e-9))
    killed: list[str] = []
    monkeypatch.setattr("ray.kill", killed.append)
    watchdog = Watchdog(searcher, lambda *_: None, lambda: None)
    state = SimpleNamespace(ray_actor="its actor")
    trial: Any = SimpleNamespace(trial_id="a", temporary_state=state)
    watchdog.on_trial_start(trial=trial)
    watchdog.on_step_end()
    assert not killed
    watchdog.on_trial_result(trial=trial, result={})
    watchdog.on_step_end()
    assert killed == ["its actor"]
    assert not searcher.late
    ended: list[int] = []
    monkeypatch.setattr("signal.raise_signal", ended.append)
    watchdog.on_step_end()
    searcher.deadline = time.monotonic()  # the trial began before it, and may finish
    watchdog.on_step_end()
    assert not ended
    watchdog.on_trial_start(trial=trial)
    watchdog.on_step_end()
    assert ended
