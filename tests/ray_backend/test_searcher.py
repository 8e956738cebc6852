"""The searcher between Ray Tune and the scheduler: what a trial's end means for its seed runs."""

import math
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ray.exceptions import RayTaskError
from ray.tune.experiment import Trial

from sclsearch.ray_backend.retries import RETRIES
from sclsearch.ray_backend.tuner import SeedSearcher, Watchdog
from sclsearch.ray_backend.worker_failures import failure_cause, line_of, node_address, ray_message
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.local import NotAFolderError
from sclsearch.study.prepared import PreparedStudy

if TYPE_CHECKING:
    from tests.workspace import Workers

Preparing = Callable[..., PreparedStudy]
ENDED = {"key": "", "out_of_memory": "", "node_ip": "10.0.0.1"}


def test_what_ray_calls_the_end_of_twice_keeps_the_first_fault(preparing: Preparing) -> None:
    scheduler = Scheduler(preparing())
    searcher = SeedSearcher(scheduler, math.inf)
    searcher.suggest("t1")
    Path(str(scheduler.runs.folder)).touch()  # the storage is away: there is no folder any more
    searcher.on_trial_complete("t1", ENDED)
    searcher.on_trial_complete("t1", error=True)
    assert isinstance(searcher.fault, NotAFolderError)


def test_a_storage_whose_seed_runs_are_not_seen_ends_the_search_and_fails_none(
    preparing: Preparing,
) -> None:
    scheduler = Scheduler(preparing(configs=1, seeds=1))
    searcher = SeedSearcher(scheduler, math.inf)
    for attempt in range(int(RETRIES["storage-unseen"])):
        searcher.suggest(f"t{attempt}")
        searcher.on_trial_complete(f"t{attempt}", ENDED)
        assert not scheduler.state.seed_runs
    searcher.suggest("last")
    searcher.on_trial_complete("last", ENDED)
    assert str(searcher.fault) == (
        "--storage: cannot store seed runs: the driver does not see what 10.0.0.1 stored. Make "
        "room or mend the storage, then run the same command to resume; nothing finished is lost."
    )
    assert scheduler.runs.keys() == []


def test_a_worker_that_ran_out_of_memory_says_so(preparing: Preparing) -> None:
    scheduler = Scheduler(preparing(configs=1, seeds=1))
    searcher = SeedSearcher(scheduler, math.inf)
    for trial in ("t1", "t2"):
        searcher.suggest(trial)
        searcher.on_trial_complete(trial, {**ENDED, "out_of_memory": "2 GiB"})
    ((_, run),) = scheduler.state.seed_runs.items()
    assert run.failure is not None
    assert (run.failure.cause, run.failure.message) == ("out-of-memory", "2 GiB")


def test_the_board_hears_where_a_seed_run_was_finished(
    preparing: Preparing, workers: "Workers", monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(preparing())
    searcher = SeedSearcher(scheduler, math.inf)
    heard: list[str] = []
    monkeypatch.setattr(scheduler.worker_failures, "finished_on", heard.append)
    searcher.suggest("t1")
    task = searcher.tasks["t1"]
    scheduler.runs.put(workers.trained(task))
    searcher.on_trial_complete("t1", ENDED)
    assert heard == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("told", "node"),
    [
        (
            "The actor died unexpectedly.\n\tpid: 12\n\tnamespace: a\n\tip: 10.0.0.7\nThe a",
            "10.0.0.7",
        ),
        ("ray::ImplicitFunc.train() (pid=12, ip=10.0.0.7, actor_id=ab)\n  File", "10.0.0.7"),
        ("The actor 12 is unavailable: RPC error: Socket closed.", ""),
    ],
)
def test_the_machine_is_read_from_what_ray_says(told: str, node: str) -> None:
    assert node_address(told) == node


@pytest.mark.parametrize(
    ("error", "cause"),
    [("device-side assert triggered", "gpu-assert"), ("unknown error", "worker-lost")],
)
def test_of_an_error_of_cuda_that_counts_which_it_is_and_not_its_advice(
    error: str, cause: str
) -> None:
    told = (
        "ray::ImplicitFunc.train() (pid=12, ip=10.0.0.7, actor_id=ab)\n"
        '  File "mine.py", line 12, in terms\n'
        "    return loss.item()\n"
        f"torch.AcceleratorError: CUDA error: {error}\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    )
    assert failure_cause(told) == cause
    assert line_of(told) == f"torch.AcceleratorError: CUDA error: {error}"


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ("The actor died unexpectedly.\n\tpid: 12\nThe actor", "The actor died unexpectedly."),
        ("ray::train()\n  File\nKeyError: 'head'", "KeyError: 'head'"),
        ("ray::train()\n  File\nValueError: one\n  two", "two"),
        ("ray::train()", "ray::train()"),
    ],
)
def test_what_happened_is_read_from_what_ray_says(told: str, line: str) -> None:
    assert line_of(told) == line


def test_the_watchdog_times_trials_that_run_and_that_came_to_their_end(
    preparing: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ticks = [0.0], list[tuple[list[float], list[float]]]()
    monkeypatch.setattr("sclsearch.ray_backend.tuner.time.monotonic", lambda: now[0])

    def record(finished: Sequence[float], running: Sequence[float]) -> None:
        ticks.append(([*finished], [*running]))

    watchdog = Watchdog(SeedSearcher(Scheduler(preparing()), math.inf), None, record)
    slow, fast, lost = (
        Trial("a_trainable", stub=True, trial_id=name) for name in ("slow", "fast", "lost")
    )
    for trial in (slow, fast, lost):
        watchdog.on_trial_start(trial=trial)
        now[0] += 1.0
    now[0] = 10.0
    watchdog.on_step_end()
    watchdog.on_trial_complete(trial=fast)
    watchdog.on_trial_error(trial=lost)
    watchdog.on_step_end()
    assert ticks[0] == ([], [10.0, 9.0, 8.0])
    assert ticks[1] == ([9.0], [10.0])


def test_the_cause_is_read_from_the_colored_text_of_rays_error_file(tmp_path: Path) -> None:
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
    told = ray_message(trial)
    assert "\x1b" not in told
    assert (line_of(told), failure_cause(told), node_address(told)) == (
        "KeyError: 'head'",
        "worker-lost",
        "10.0.0.7",
    )
