"""Who takes part in `peers.py`, and how each is started, in a process of its own."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.points import POINTS, SETTINGS, Bed, work_of
from benchmarks.trainers import Case
from sclsearch.store.runs import RunStore
from sclsearch.tasks.metrics import value
from sclsearch.training.engine import train
from sclsearch.training.spec import TrainingData

RAY = importlib.util.find_spec("ray") is not None
OURS = "sclsearch tune" if RAY else "engine"
LOOP, SEARCH = "Trainer, a loop", "Trainer.hyperparameter_search"
ARMS: Mapping[str, tuple[str, ...]] = {
    "scl": (OURS, LOOP, SEARCH) if RAY else (OURS, LOOP),
    "supcl-seq": (OURS, LOOP),
}


@dataclass(frozen=True, slots=True)
class Unit:
    """What one arm does in one round.

    Attributes:
        arm: Who.
        method: The method.
        bed: What all seed runs have in common.
        points: Numbers of the configurations.
        seeds: Replicates of each.
        threads: Cores that it may use.
    """

    arm: str
    method: str
    bed: Bed
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
        return sum(_trained_tokens(work_of(self.bed, *case)) for case in self.cases)


def _trained_tokens(work: TrainingData) -> int:
    """Return the tokens that go through the encoder forward and backward, in all views."""
    stages, total = work.spec.stages, 0
    for position, stage in enumerate(stages):
        if stage.frozen_pooling is None:
            lengths = work.tokens.splits[work.rows_of(stage).split].lengths
            for update, index in enumerate(work.order(stage, len(stages) - 1 - position)):
                total += len(stage.rates_at(update)) * int(lengths[index].sum())
    return total


@dataclass(frozen=True, slots=True)
class Found:
    """What a unit took and gave.

    Attributes:
        seconds: Wall-clock time of its process, from start to end.
        scores: Test scores of its seed runs.
    """

    seconds: float
    scores: list[float]


def run(unit: Unit, folder: Path) -> Found:
    """Runs a unit in a process of its own; what it leaves in the folder is its own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = {OURS: tune if RAY else engine, LOOP: trainers, SEARCH: trainers}[unit.arm]
    line = command(unit, folder)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(unit.threads if unit.arm == LOOP else 1),
        "TOKENIZERS_PARALLELISM": "false",
        # Ray's workers are started elsewhere.
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
    }
    started = time.perf_counter()
    with (folder / "log").open("w") as log:
        ended = subprocess.run(line, check=False, stdout=log, stderr=log, env=environment)
    if ended.returncode:
        sys.exit(f"{unit.arm}, {unit.method}: it failed. {folder / 'log'} says why.")
    return Found(time.perf_counter() - started, scores(unit, folder))


def trainers(unit: Unit, folder: Path) -> list[str]:
    """Returns the command of the arms by Trainer."""
    told = {"bed": asdict(unit.bed), "cases": unit.cases, "threads": unit.threads}
    (folder / "work.json").write_text(json.dumps(told), encoding="utf-8")
    files = [str(folder / "work.json"), str(folder / "scores.json")]
    ray = ["--ray"] if unit.arm == SEARCH else []
    return [sys.executable, "-m", "benchmarks.trainers", *files, *ray]


def tune(unit: Unit, folder: Path) -> list[str]:
    """Returns the command of a search over the unit's configurations."""
    points = [POINTS[unit.method][point] for point in unit.points]
    choices = {
        name: {"type": "choice", "values": sorted({point[name] for point in points}, key=str)}
        for name in points[0]
    }
    space = {"method": unit.method, "source": "a benchmark", "published": points, "space": choices}
    (folder / "space.yaml").write_text(json.dumps(space), encoding="utf-8")
    bed = unit.bed
    told = {
        "--method": unit.method,
        "--task": bed.task,
        "--model": bed.model,
        "--train-size": bed.train_size,
        "--protocol": "gunel-fewshot",
        "--space": folder / "space.yaml",
        "--configs": len(points),
        "--seeds": unit.seeds,
        "--rule": "mean",
        "--storage": folder / "storage",
        "--tracking": "none",
        "--concurrency": unit.threads,
        **({"--data-dir": bed.data_dir} if bed.data_dir else {}),
    }
    options = [str(word) for option in told.items() for word in option]
    settings = {**SETTINGS[unit.method], **bed.settings}
    sets = [word for name, x in settings.items() for word in ("--set", f"{name}={x}")]
    return [sys.executable, "-c", "from sclsearch.cli import main; main()", "tune", *options, *sets]


def engine(unit: Unit, folder: Path) -> list[str]:
    """Returns the command of the engine without a search."""
    told = {"bed": asdict(unit.bed), "cases": unit.cases, "threads": unit.threads}
    (folder / "work.json").write_text(json.dumps(told), encoding="utf-8")
    files = [str(folder / "work.json"), str(folder / "scores.json")]
    return [sys.executable, "-m", "benchmarks.peers", "--engine", *files]


def scores(unit: Unit, folder: Path) -> list[float]:
    """Returns the test scores that a unit has left, in the order of its seed runs."""
    if (folder / "scores.json").exists():
        return [float(one) for one in json.loads((folder / "scores.json").read_text("utf-8"))]
    store, found = RunStore(str(folder / "storage")), []
    for case in unit.cases:
        spec = work_of(unit.bed, *case).spec
        run = store.get(spec.key)
        # The key is of rows, epochs, batches, rates, seeds: it was this training and no other.
        assert run is not None, f"{case} is not in the store"
        assert run.failure is None, run.failure
        found.append(value(spec.metric, run.test))
    return found


def run_engine(work: Path, output: Path) -> None:
    """Trains seed runs one after the other in each of several processes."""
    told = json.loads(work.read_text(encoding="utf-8"))
    bed, cases = Bed(**told["bed"]), told["cases"]
    with ProcessPoolExecutor(told["threads"], get_context("spawn")) as pool:
        found = list(pool.map(partial(one_score, bed), cases))
    output.write_text(json.dumps(found), encoding="utf-8")


def one_score(bed: Bed, case: Case) -> float:
    """Returns the test score of one seed run."""
    torch.set_num_threads(1)
    work = work_of(bed, *case)
    return value(work.spec.metric, train(work).test)
