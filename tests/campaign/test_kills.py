"""Tests of a search that is killed at random and resumed: it ends as an undisturbed one.

`SCLSEARCH_KILLS=30 pytest -s tests/campaign/test_kills.py` runs the whole campaign;
benchmarks/kills.md has its last result. Without the variable there are three kills.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from rich.console import Console

from sclsearch.ray_backend.start import OWNER, PREFIX, delete_dead_sessions
from sclsearch.search.run import run
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tracking.server import connect
from tests.processes import wait_for
from tests.studies import in_process, reproducible_results

KILLS = int(os.environ.get("SCLSEARCH_KILLS", "3"))
TARGETS = {
    "driver": "",
    "worker": "ray::ImplicitFunc",
    "runtime-env agent": "RuntimeEnvAgent",
    "raylet": "raylet/raylet",
    "GCS": "gcs/gcs_server",
    "dashboard agent": "DashboardAgent",
    "log monitor": "log_monitor.py",
    "MLflow writer": "sclsearch.tracking.process",
}
CODES = {"driver": {-signal.SIGKILL}, "worker": {130}}
"""Exit codes of the driver; without a part of Ray it goes on until Ctrl-C, or it ends."""
CONFIGS, SEEDS = max(6, 2 * KILLS // 3), max(3, 2 * KILLS // 3)
SETTINGS = {"epochs": 40, "batch_size": 8, "max_length": 16}

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(3000)]


def session(driver: int) -> str | None:
    """Return Ray's session folder if a driver has started Ray."""
    for file in Path(gettempdir()).glob(f"{PREFIX}*/{OWNER}"):
        with suppress(OSError):
            found = file.read_text(encoding="utf-8")
            if found.endswith(f"_{driver}"):
                return found
    return None


def until(process: "subprocess.Popen[Any]", met: Callable[[], object]) -> bool:
    """Wait for a condition; return whether it held while the process ran."""
    end = time.monotonic() + 90
    while not met():
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def stored(storage: Path) -> dict[str, tuple[int, bytes]]:
    """Return the inode and content of every stored seed run."""
    paths = (storage / "runs").glob("*.json")
    return {path.stem: (path.stat().st_ino, path.read_bytes()) for path in paths}


def deleted(sessions: set[str]) -> bool:
    """Delete the sessions of killed drivers; return whether none is left.

    A Ray process that still ends may write to its session in the meantime.
    """
    delete_dead_sessions()
    return not any(Path(folder).exists() for folder in sessions)


def kill(
    driver: "subprocess.Popen[Any]", target: str, wait: float, named: Callable[[str], list[int]]
) -> bool:
    """Kill a process of a search after some seconds; return whether there was one."""
    time.sleep(wait)
    pids = [driver.pid] if target == "driver" else []
    if not pids and until(driver, partial(named, TARGETS[target])):
        pids = named(TARGETS[target])
    if not pids or driver.poll() is not None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pids[0], signal.SIGKILL)
    return True


def test_a_killed_and_resumed_search_loses_nothing_finished_and_ends_as_an_undisturbed_one(
    tiny_encoder: Path, processes: Any, tmp_path: Path
) -> None:
    draw = random.Random(7)
    storage, whole = tmp_path / "storage", tmp_path / "whole"
    command = [sys.executable, "-m", "sclsearch", "tune", "--method=scl", "--task=demo"]
    command += [f"--model={tiny_encoder}", "--train-size=20", f"--storage={storage}"]
    command += [f"--configs={CONFIGS}", f"--seeds={SEEDS}", "--race=off", "--study=mine"]
    command += ["--concurrency=2", "--gpus-per-trial=0"]
    command += [f"--set={name}={value}" for name, value in SETTINGS.items()]
    start = partial(subprocess.Popen, command, env={**os.environ, **processes.environment})
    targets = [list(TARGETS)[number % len(TARGETS)] for number in range(KILLS)]
    draw.shuffle(targets)
    counts: Counter[str] = Counter()
    in_training: Counter[str] = Counter()
    sessions: set[str] = set()
    kept: dict[str, tuple[int, bytes]] = {}
    starts = 0

    def has_stored(wanted: int) -> Callable[[], bool]:
        return lambda: len(stored(storage)) >= wanted

    while counts.total() < KILLS:
        starts += 1
        assert starts <= 2 * KILLS, f"{counts} of {KILLS} kills in {starts} starts"
        target = targets[counts.total()]
        log, before = tmp_path / "log.txt", len(kept)
        with log.open("wb") as output:
            driver = start(stdout=output, stderr=output)
        # Half of the kills happen while the workers start, the others during training.
        wanted = before + draw.choice((0, 0, 0, 1, 2, 5))
        ready = until(driver, partial(session, driver.pid))
        if ready and target == "driver":  # Ray's logs stay after an orderly end
            sessions.add(str(session(driver.pid)))
        ready = ready and until(driver, has_stored(wanted))
        hit = ready and kill(driver, target, draw.uniform(0, 2), processes.named)
        assert kept.items() <= stored(storage).items(), "lost or trained twice"
        kept = stored(storage)
        if target != "driver":  # Ray replaces a worker, and the search continues
            until(driver, has_stored(len(kept) + 1))
            driver.send_signal(signal.SIGINT)
        code = driver.wait(timeout=180)
        text = log.read_text(encoding="utf-8", errors="replace")
        if not hit:
            continue
        assert code in CODES.get(target, {1, 2, 130}), text
        if code == 2:
            assert "un the same command" in text.splitlines()[-1]
        if code == 130:
            assert f" of {CONFIGS * SEEDS} seed runs. Run the same command" in text
            assert not list((storage / "studies" / "mine").glob("driver*"))
        counts[target] += 1
        in_training[target] += len(kept) > before
    assert start().wait() == 0
    wait_for("the end of the sessions", partial(deleted, sessions))
    usual: dict[str, Any] = {"method": "scl", "task": "demo", "model": str(tiny_encoder)}
    spec = StudySpec(**usual, train_size=20, settings=SETTINGS)
    alike: dict[str, Any] = {"study": "mine", "configs": CONFIGS, "seeds": SEEDS, "race": "off"}
    options = RunOptions(**alike, concurrency=2, storage=whole, gpus_per_trial=0, tracking="none")
    with in_process():
        run(spec, options, Console(quiet=True))
    assert kept.items() <= stored(storage).items()
    assert reproducible_results(storage) == reproducible_results(whole)
    assert len(reproducible_results(storage)) == CONFIGS * SEEDS
    ours, undisturbed = (StudyStore(place, "mine").configurations() for place in (storage, whole))
    assert ours == undisturbed
    client = connect(f"sqlite:///{storage / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    tags = [one.data.tags for one in client.search_runs(experiments, max_results=10_000)]
    keys = Counter(one["key"] for one in tags if one["level"] == "seed run")
    assert keys == dict.fromkeys(stored(storage), 1)
    sys.stdout.write(
        f"{KILLS} kills {dict(counts)}, of these after the start's first seed run "
        f"{dict(in_training)}; {starts} starts, {len(keys)} seed runs\n"
    )
