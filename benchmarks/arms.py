"""Arms of the comparison in `peers.py`; each runs in a separate process."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.points import POINTS, SETTINGS, Run, Setup, training_data
from benchmarks.trainers import Case
from sclsearch.store.runs import RunStore
from sclsearch.tasks.metrics import value
from sclsearch.training.data import batches_in_order, rows_of
from sclsearch.training.device import fast_bf16
from sclsearch.training.engine import train

RAY = importlib.util.find_spec("ray") is not None
OURS = "sclsearch tune" if RAY else "engine"
BF16 = "sclsearch tune --precision bf16"
LOOP, SEARCH = "Trainer, a loop", "Trainer.hyperparameter_search"
ON_CPU = not torch.cuda.is_available()
BFLOAT16 = (BF16,) if RAY and ON_CPU and fast_bf16(torch.device("cpu")) else ()
ARMS: Mapping[str, tuple[str, ...]] = {
    "scl": (OURS, LOOP, SEARCH, *BFLOAT16) if RAY else (OURS, LOOP),
    "supcl-seq": (OURS, LOOP, *BFLOAT16),
}


@dataclass(frozen=True, slots=True)
class Unit:
    """Work of one arm in one round.

    Attributes:
        arm: Name of the arm.
        method: The method.
        setup: Settings that all seed runs share.
        points: Numbers of the configurations.
        seeds: Replicates of each.
        threads: Cores that it may use.
    """

    arm: str
    method: str
    setup: Setup
    points: tuple[int, ...]
    seeds: int
    threads: int

    @property
    def cases(self) -> list[Case]:
        """Its seed runs."""
        return [
            (self.method, dict(POINTS[self.method][point]), number)
            for point in self.points
            for number in range(self.seeds)
        ]

    @property
    def tokens(self) -> int:
        """Tokens of the training rows, each as often as it is trained on; no padding."""
        return sum(_trained_tokens(training_data(self.setup, *case)) for case in self.cases)


def _trained_tokens(data: Run) -> int:
    """Return the tokens that go through the encoder forward and backward, in all views."""
    stages, total = data.spec.stages, 0
    for position, stage in enumerate(stages):
        if stage.frozen_pooling is None:
            rows, remaining = rows_of(*data, stage), len(stages) - 1 - position
            lengths = data.tokens[rows.split].lengths_of(rows.index)
            settings, order = stage.training, data.spec.replicate.order
            for update, positions in enumerate(
                batches_in_order(len(rows.index), settings, remaining, order, None)
            ):
                total += len(stage.dropout_rates_at(update)) * int(lengths[positions].sum())
    return total


@dataclass(frozen=True, slots=True)
class UnitResult:
    """Time and scores of a unit.

    Attributes:
        seconds: Wall-clock time of its process, from start to end.
        scores: Test scores of its seed runs.
    """

    seconds: float
    scores: list[float]


def run(unit: Unit, folder: Path) -> UnitResult:
    """Run a unit in a separate process, with a folder for its files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    line = command(unit, folder)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(unit.threads if unit.arm == LOOP else 1),
        "TOKENIZERS_PARALLELISM": "false",
        # Ray starts its workers in another folder.
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
    }
    started = time.perf_counter()
    with (folder / "log").open("w") as log:
        ended = subprocess.run(line, check=False, stdout=log, stderr=log, env=environment)
    if ended.returncode:
        sys.exit(f"{unit.arm}, {unit.method}: it failed. {folder / 'log'} says why.")
    return UnitResult(time.perf_counter() - started, scores(unit, folder))


def command(unit: Unit, folder: Path) -> list[str]:
    """Return the command of a unit."""
    if unit.arm in (OURS, BF16) and RAY:
        return tune(unit, folder)
    work = {"setup": asdict(unit.setup), "cases": unit.cases, "threads": unit.threads}
    (folder / "work.json").write_text(json.dumps(work), encoding="utf-8")
    files = [str(folder / "work.json"), str(folder / "scores.json")]
    if unit.arm == OURS:
        return [sys.executable, "-m", "benchmarks.peers", "--engine", *files]
    ray = ["--ray"] if unit.arm == SEARCH else []
    return [sys.executable, "-m", "benchmarks.trainers", *files, *ray]


def tune(unit: Unit, folder: Path) -> list[str]:
    """Return the command of a search over the unit's configurations."""
    points = [POINTS[unit.method][point] for point in unit.points]
    choices = {
        name: {"type": "choice", "values": sorted({point[name] for point in points}, key=str)}
        for name in points[0]
    }
    space = {"method": unit.method, "source": "a benchmark", "published": points, "space": choices}
    (folder / "space.yaml").write_text(json.dumps(space), encoding="utf-8")
    setup = unit.setup
    options = {
        "--method": unit.method,
        "--task": setup.task,
        "--model": setup.model,
        "--train-size": setup.train_size,
        "--protocol": "gunel-fewshot",
        "--space": folder / "space.yaml",
        "--configs": len(points),
        "--seeds": unit.seeds,
        "--rule": "mean",
        "--storage": folder / "storage",
        "--tracking": "none",
        "--concurrency": unit.threads,
        # On a GPU, Trainer and the engine are in bfloat16 too, see `points.training_data`.
        "--precision": "bf16" if unit.arm == BF16 or torch.cuda.is_available() else "fp32",
        **({"--data-dir": setup.data_dir} if setup.data_dir else {}),
    }
    words = [str(word) for option in options.items() for word in option]
    settings = {**SETTINGS[unit.method], **setup.settings}
    sets = [word for name, x in settings.items() for word in ("--set", f"{name}={x}")]
    return [sys.executable, "-c", "from sclsearch.cli import main; main()", "tune", *words, *sets]


def scores(unit: Unit, folder: Path) -> list[float]:
    """Return the test scores that a unit stored, in the order of its seed runs."""
    if (folder / "scores.json").exists():
        return [float(one) for one in json.loads((folder / "scores.json").read_text("utf-8"))]
    store, found = RunStore(str(folder / "storage")), []
    for case in unit.cases:
        spec = training_data(unit.setup, *case).spec
        if unit.arm == BF16:
            spec = replace(spec, numerics="cpu-bf16")
        run = store.get(spec.key)
        # The key covers rows, epochs, batches, rates and seeds, so it was exactly this training.
        assert run is not None, f"{case} is not in the store"
        assert run.failure is None, run.failure
        found.append(value(spec.metric, run.test))
    return found


def run_engine(work: Path, output: Path) -> None:
    """Train seed runs one after the other in each of several processes."""
    loaded = json.loads(work.read_text(encoding="utf-8"))
    setup, cases = Setup(**loaded["setup"]), loaded["cases"]
    with ProcessPoolExecutor(loaded["threads"], get_context("spawn")) as pool:
        found = list(pool.map(partial(one_score, setup), cases))
    output.write_text(json.dumps(found), encoding="utf-8")


def one_score(setup: Setup, case: Case) -> float:
    """Return the test score of one seed run."""
    torch.set_num_threads(1)
    data = training_data(setup, *case)
    return value(data.spec.metric, train(*data).test)
