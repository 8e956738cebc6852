"""Tests of the searcher between Ray Tune and the scheduler: results and failures of trials."""

import math
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError

from sclsearch.ray_backend.ray_errors import (
    failure_cause,
    line_of,
    node_address,
    patch_out_of_memory,
    ray_message,
)
from sclsearch.ray_backend.tuner import SeedSearcher
from sclsearch.ray_backend.worker_failures import RETRIES
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.local import NotAFolderError
from tests.workspace import Prepare, Workers

ENDED = {"key": "", "node_ip": "10.0.0.1"}


def test_a_trial_that_ray_ends_twice_keeps_its_first_error(prepare: Prepare) -> None:
    scheduler = Scheduler(prepare())
    searcher = SeedSearcher(scheduler, math.inf)
    searcher.suggest("t1")
    Path(str(scheduler.runs.folder)).touch()  # as if the storage were unmounted
    searcher.on_trial_complete("t1", ENDED)
    searcher.on_trial_complete("t1", error=True)
    assert isinstance(searcher.fault, NotAFolderError)


def test_stored_seed_runs_that_the_driver_cannot_see_end_the_search_without_failures(
    prepare: Prepare,
) -> None:
    scheduler = Scheduler(prepare(configs=1, seeds=1))
    searcher = SeedSearcher(scheduler, math.inf)
    for attempt in range(int(RETRIES["storage-unseen"])):
        searcher.suggest(f"t{attempt}")
        searcher.on_trial_complete(f"t{attempt}", ENDED)
        assert not scheduler.state.seed_runs
    searcher.suggest("last")
    searcher.on_trial_complete("last", ENDED)
    assert str(searcher.fault) == (
        "--storage: cannot store seed runs: the driver does not see what 10.0.0.1 stored. Make "
        "room or repair the storage, then run the same command to resume; nothing finished is lost."
    )
    assert scheduler.runs.keys() == []


def test_a_seed_run_that_runs_out_of_memory_fails_with_its_message(prepare: Prepare) -> None:
    scheduler = Scheduler(prepare(configs=1, seeds=1))
    searcher = SeedSearcher(scheduler, math.inf)
    for trial in ("t1", "t2"):
        searcher.suggest(trial)
        searcher.on_trial_complete(trial, {**ENDED, "failure": ("out-of-memory", "2 GiB")})
    ((_, run),) = scheduler.state.seed_runs.items()
    assert run.failure is not None
    assert (run.failure.cause, run.failure.message) == ("out-of-memory", "2 GiB")


def test_the_scheduler_gets_the_node_that_finished_a_seed_run(
    prepare: Prepare, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(prepare())
    searcher = SeedSearcher(scheduler, math.inf)
    nodes: list[str] = []
    monkeypatch.setattr(scheduler.worker_failures, "finished_on", nodes.append)
    searcher.suggest("t1")
    task = searcher.tasks["t1"]
    scheduler.runs.put(workers.trained(task))
    searcher.on_trial_complete("t1", ENDED)
    assert nodes == ["10.0.0.1"]


IN_TRAINING = "ray::ImplicitFunc.train() (pid=12, ip=10.0.0.7, actor_id=ab)\n  File\n"
"""Start of Ray's message about an exception in a worker."""
ADVICE = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("CUDA out of memory. Tried to allocate 2 GiB", "out-of-memory"),
        ("sclsearch.search.node.UnfitNodeError: no", "node-unfit"),
        ("sclsearch.store.remote.StorageError: s3://a/b", "storage-lost"),
        ("sclsearch.search.trial.BrokenStorageError: /s: full", "storage-broken"),
        ("torch.AcceleratorError: CUDA error: device-side assert triggered", "gpu-assert"),
        ("torch.AcceleratorError: CUDA error: unknown error", "worker-lost"),
    ],
)
def test_an_exception_in_a_worker_is_parsed_without_torchs_advice(line: str, cause: str) -> None:
    message = IN_TRAINING + line + ADVICE
    assert (failure_cause(message), line_of(message)) == (cause, line)
    assert node_address(message) == "10.0.0.7"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("OutOfMemoryError: 1 worker(s) were killed", "out-of-memory"),
        ("The actor died because its node has died. Node Id: 12", "node-lost"),
        ("The actor died because its node was terminated: a spot instance", "node-lost"),
        ("Task failed because the node it was running on is dead or unavailable", "node-lost"),
        ("The actor 12 is unavailable: RPC error: Socket closed.", "worker-silent"),
        ("The actor died unexpectedly before finishing this task.", "worker-lost"),
        ("ray::train()", "worker-lost"),
    ],
)
def test_the_death_of_a_worker_is_parsed_from_the_first_line(line: str, cause: str) -> None:
    assert (failure_cause(line), node_address(line)) == (cause, "")
    message = f"{line}\n\tpid: 12\n\tip: 10.0.0.7\nThe actor"
    assert node_address(message) == "10.0.0.7"
    assert line_of(line) == line


def test_a_worker_killed_for_memory_at_its_start_counts_as_out_of_memory() -> None:
    errors: list[Exception] = []
    manager = SimpleNamespace(_failed_actor_ids=set(), _cleanup_actor=lambda tracked_actor: None)
    worker = SimpleNamespace(actor_id=7, _on_error=lambda _, exception: errors.append(exception))
    patch_out_of_memory()
    killed = OutOfMemoryError("killed due to the node running low on memory")
    RayActorManager._actor_start_failed(manager, tracked_actor=worker, exception=killed)
    (exception,) = errors
    assert isinstance(exception, RayActorError)  # Tune keeps the message of this type
    assert "killed due to the node running low on memory" in str(exception)
    assert failure_cause(str(exception)) == "out-of-memory"


def test_the_cause_is_parsed_from_the_colored_text_of_rays_error_file(tmp_path: Path) -> None:
    try:
        raise KeyError("head")  # noqa: TRY301
    except KeyError as error:
        error.add_note("a note")
        ours = error
    text = "".join(traceback.format_exception(ours))
    raised = RayTaskError("train", text, ours, "ray::ImplicitFunc.train", 12, "10.0.0.7", "f", "ab")
    assert "\x1b[36mray::" in str(raised)
    file = tmp_path / "error.txt"
    file.write_text(f"Failure # 1 (occurred at 10:00)\n{raised}\n", encoding="utf-8")
    trial: Any = SimpleNamespace(error_file=str(file))
    message = ray_message(trial)
    assert "\x1b" not in message
    assert (line_of(message), failure_cause(message), node_address(message)) == (
        "KeyError: 'head'",
        "worker-lost",
        "10.0.0.7",
    )
