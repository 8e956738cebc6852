"""A search that is killed at random goes on, and ends as if nobody had touched it.

`SCLSEARCH_KILLS=30 pytest tests/campaign/test_kills.py` is the whole campaign, whose last result is
in benchmarks/kills.md; without the variable there are four kills, one for each kind of process.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
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
CONFIGS, SEEDS = 20, max(3, 2 * KILLS // 3)
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


def killed(process: "subprocess.Popen[bytes]", target: str, wait: float) -> bool:
    """Kill a search's process of some kind, some seconds after Ray has started."""
    end = time.monotonic() + 90
    while owner(process.pid) is None:
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.1)
    time.sleep(wait)
    found = [process.pid] if target == "driver" else []
    while not found and process.poll() is None and time.monotonic() < end:
        found = [number for number, line in descendants(process.pid) if TARGETS[target] in line]
    if not found or process.poll() is not None:
        return False
    with suppress(ProcessLookupError):
        os.kill(found[0], signal.SIGKILL)
    return True


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
    began = time.monotonic()
    for target in targets:
        log = tmp_path / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(command(spec, storage), stdout=output, stderr=output)
        hit = killed(process, target, forecast.uniform(0, 4))
        stored = len(RunStore(storage).keys()) if storage.exists() else 0
        if target == "worker":
            process.send_signal(signal.SIGINT)  # Ray replaces a worker: the search goes on
        process.wait(timeout=180)
        said = log.read_text(encoding="utf-8", errors="replace")
        assert "Traceback" not in said, said
        if target in {"raylet", "GCS"}:
            assert f"its {target} on this machine died. The same command goes on" in said
        counts[target] += hit
        assert len(RunStore(storage).keys()) >= stored
    done = subprocess.run(command(spec, storage), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

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
        f"{sum(counts.values())} kills ({dict(counts)}), {len(ours)} seed runs, "
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
            keys = (run.data.tags.get("sclsearch.key") for run in page)
            found.update(key for key in keys if key)
            token = page.token
            if not token:
                break
    return found
