"""A search that is killed at random goes on, and ends as if nobody had touched it.

`SCLSEARCH_KILLS=30 pytest -s tests/campaign/test_kills.py` is the whole campaign; its last result
is in benchmarks/kills.md. Without the variable there are four kills, one for each kind of process.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from rich.console import Console

from sclsearch.ray_backend.leftovers import OWNER, PREFIX
from sclsearch.search.run import run
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions, StudySpec
from tests.in_process import in_process

KILLS = int(os.environ.get("SCLSEARCH_KILLS", "4"))
TARGETS = {
    "driver": "",
    "worker": "ray::ImplicitFunc",
    "raylet": "raylet/raylet",
    "GCS": "gcs/gcs_server",
}
CODES = {"driver": -signal.SIGKILL, "worker": 130, "raylet": 2, "GCS": 2}
CONFIGS, SEEDS = max(12, 2 * KILLS // 3), max(3, 2 * KILLS // 3)
ENTRY = "from sclsearch.__main__ import main; main()"

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(3000)]


@pytest.fixture
def spec(tiny_encoder: Path) -> StudySpec:
    settings = {"epochs": 40, "batch_size": 8, "max_length": 16}
    return StudySpec(
        method="scl", task="demo", model=str(tiny_encoder), train_size=20, settings=settings
    )


def command(spec: StudySpec, storage: Path) -> list[str]:
    options = {
        **{"--method": spec.method, "--task": spec.task, "--model": spec.model},
        **{"--train-size": spec.train_size, "--configs": CONFIGS, "--seeds": SEEDS},
        **{"--storage": storage, "--study": "mine", "--concurrency": 2, "--gpus-per-trial": 0},
    }
    words = [str(word) for pair in options.items() for word in pair]
    words += [word for pair in spec.settings.items() for word in ("--set", f"{pair[0]}={pair[1]}")]
    return [sys.executable, "-c", ENTRY, "tune", *words]


def owner(driver: int) -> Mapping[str, Any] | None:
    """Return what a driver that has started Ray wrote of itself."""
    for file in Path(gettempdir()).glob(f"{PREFIX}*/{OWNER}"):
        with suppress(OSError, ValueError):
            found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if found["pid"] == driver:
                return found
    return None


def descendants(driver: int) -> Iterator[tuple[int, str]]:
    """Yield number and command line of the processes below a driver."""
    parents, commands = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            status = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(entry.name)] = int(status[1])
            commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
    for number in parents:
        above = number
        while above in parents and above != driver:
            above = parents[above]
        if above == driver and number != driver:
            yield number, commands[number]


def until(process: "subprocess.Popen[bytes]", met: Callable[[], bool]) -> bool:
    """Wait for a condition; return whether it was met while the process ran."""
    end = time.monotonic() + 90
    while not met():
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def stored(storage: Path) -> int:
    """Return the number of stored seed runs."""
    return len(RunStore(storage).keys()) if storage.exists() else 0


def has_ray(driver: int, sessions: set[str]) -> bool:
    """Return whether a driver has started Ray; add the folder of its session."""
    found = owner(driver)
    sessions.update([str(found["session"])] if found else [])
    return found is not None


def has_stored(storage: Path, wanted: int) -> bool:
    """Return whether so many seed runs are stored."""
    return stored(storage) >= wanted


def killed(process: "subprocess.Popen[bytes]", target: str, wait: float) -> bool:
    """Kill a search's process of some kind after some seconds."""
    end = time.monotonic() + 90
    time.sleep(wait)
    found = [process.pid] if target == "driver" else []
    while not found and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
        found = [number for number, line in descendants(process.pid) if TARGETS[target] in line]
    if not found or process.poll() is not None:
        return False
    with suppress(ProcessLookupError):
        os.kill(found[0], signal.SIGKILL)
    return True


def command_lines() -> Iterator[str]:
    """Yield the command lines of all processes."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield file.read_bytes().decode(errors="replace")


def figures(run: SeedRun) -> tuple[object, ...]:
    return run.key, run.identity, run.evaluations, run.kept, run.test, run.predictions, run.failure


def test_nothing_is_lost_or_doubled_and_every_figure_is_the_same(
    spec: StudySpec, tmp_path: Path
) -> None:
    forecast = random.Random(7)
    storage = tmp_path / "storage"
    targets = [list(TARGETS)[number % len(TARGETS)] for number in range(KILLS)]
    forecast.shuffle(targets)
    counts: Counter[str] = Counter()
    in_training: Counter[str] = Counter()
    sessions: set[str] = set()
    starts = 0
    began = time.monotonic()
    while sum(counts.values()) < KILLS:
        starts += 1
        assert starts <= 2 * KILLS, f"{counts} of {KILLS} kills in {starts} starts"
        target = targets[sum(counts.values())]
        log, before = tmp_path / "log.txt", stored(storage)
        with log.open("wb") as output:
            process = subprocess.Popen(command(spec, storage), stdout=output, stderr=output)
        # Half of the kills meet the start of the workers, the others training.
        wanted = before + forecast.choice((0, 0, 0, 1, 2, 5))
        # A search that ends in order leaves Ray's logs.
        swept = set[str]() if target == "worker" else sessions
        ready = until(process, partial(has_ray, process.pid, swept))
        ready = ready and until(process, partial(has_stored, storage, wanted))
        hit = ready and killed(process, target, forecast.uniform(0, 2))
        kept = stored(storage)
        if target == "worker":  # Ray replaces a worker, and the search continues
            until(process, partial(has_stored, storage, kept + 1))
            process.send_signal(signal.SIGINT)
        code = process.wait(timeout=180)
        said = log.read_text(encoding="utf-8", errors="replace")
        assert "Traceback" not in said, said
        assert "(raylet)" not in said, said  # a line of Ray's log
        assert stored(storage) >= kept
        if not hit:
            continue
        if target in {"raylet", "GCS"}:
            assert f"its {target} on this machine died. Run the same command to resume" in said
        assert code == CODES[target], said
        counts[target] += 1
        in_training[target] += kept > before
    done = subprocess.run(command(spec, storage), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not [session for session in sessions if Path(session).exists()]
    assert not [line for line in command_lines() if any(session in line for session in sessions)]

    options = RunOptions(storage=tmp_path / "whole", study="mine", configs=CONFIGS, seeds=SEEDS)
    options = replace(options, concurrency=2, gpus_per_trial=0, tracking="none")
    with in_process():
        run(spec, options, Console(quiet=True))
    ours, whole = (
        {run.key: figures(run) for run in RunStore(place).all()}
        for place in (storage, tmp_path / "whole")
    )
    assert ours == whole
    assert len(ours) == CONFIGS * SEEDS
    assert (
        StudyStore(storage, "mine").configurations()
        == StudyStore(tmp_path / "whole", "mine").configurations()
    )
    shown = _in_mlflow(storage)
    assert set(shown) >= set(ours)
    assert set(shown.values()) == {1}
    sys.stdout.write(
        f"{sum(counts.values())} kills {dict(counts)}, of these after the start's first seed run "
        f"{dict(in_training)}; {starts} starts, {len(ours)} seed runs, "
        f"{time.monotonic() - began:.0f} s\n"
    )


def _in_mlflow(storage: Path) -> Counter[str]:
    """Return how often MLflow has each seed run, by its key."""
    from sclsearch.tracking.server import connect

    client = connect(f"sqlite:///{storage / 'mlflow.db'}")
    found: Counter[str] = Counter()
    for experiment in client.search_experiments():
        token = None
        while True:
            page = client.search_runs(
                [experiment.experiment_id], max_results=1000, page_token=token
            )
            keys = (run.data.tags.get("key") for run in page)
            found.update(key for key in keys if key)
            token = page.token
            if not token:
                break
    return found
