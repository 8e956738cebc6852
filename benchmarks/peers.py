"""A whole search by us beside what a user would otherwise run, in one interleaved run.

    python -m benchmarks.peers --data-dir glue [--storage FOLDER] [--minutes 15]

The same configurations and seeds by `sclsearch tune`, by transformers' Trainer in a plain loop, and
for `scl` by Trainer.hyperparameter_search with Ray; for `supcl-seq` the loop has N sequential
forward passes and an uncached probe. Same model, rows, epochs, batches and cores; everything
trained to its end and tested. Each round gives every arm some of the configurations. What is
finished is kept in the storage folder, so the command goes on where it was stopped. Without Ray
the arm `engine` stands for ours: the same seed runs, without a search around them.
"""

import argparse
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, variance

import torch

from benchmarks.machine import cores, header, markdown
from benchmarks.points import POINTS, SETTINGS, Bed, work_of
from benchmarks.trainers import Case
from sclsearch.canonical import digest
from sclsearch.store.runs import RunStore
from sclsearch.tasks.metrics import value
from sclsearch.training.engine import train
from sclsearch.training.workload import workload

RAY = importlib.util.find_spec("ray") is not None
OURS = "sclsearch tune" if RAY else "engine"
LOOP, SEARCH = "Trainer, a loop", "Trainer.hyperparameter_search"
ARMS: Mapping[str, tuple[str, ...]] = {
    "scl": (OURS, LOOP, SEARCH) if RAY else (OURS, LOOP),
    "supcl-seq": (OURS, LOOP),
}
ERRORS = 3
"""Standard errors of a difference within which scores agree."""


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
        return sum(workload(work_of(self.bed, *case)).trained for case in self.cases)


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
        subprocess.run(line, check=True, stdout=log, stderr=log, env=environment)
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
        job = work_of(unit.bed, *case).job
        run = store.get(job.key)
        # The key is of rows, epochs, batches, rates, seeds: it was this training and no other.
        assert run is not None, f"{case} is not in the store"
        assert run.failure is None, run.failure
        found.append(value(job.metric, run.test))
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
    return value(work.job.metric, train(work).test)


def table(done: Mapping[Unit, Found]) -> Iterator[str]:
    """Yields the lines of the table: every arm over all its rounds."""
    columns = ("method", "arm", "seed runs", "seconds", "× ours", "µs a token", "test", "agrees")
    yield from markdown(columns, [row for method in ARMS for row in rows(done, method)])


def rows(done: Mapping[Unit, Found], method: str) -> Iterator[list[str]]:
    """Yields the rows of a method, of the rounds that all its arms have."""
    of_arm = {
        arm: {unit.points: unit for unit in done if (unit.method, unit.arm) == (method, arm)}
        for arm in ARMS[method]
    }
    shared = set.intersection(*(set(units) for units in of_arm.values()))
    if not shared:
        return
    ours: tuple[float, list[float]] | None = None
    for arm, units in of_arm.items():
        founds = [done[units[points]] for points in sorted(shared)]
        seconds = sum(found.seconds for found in founds)
        reached = [one for found in founds for one in found.scores]
        tokens = sum(units[points].tokens for points in shared)
        first = ours is None
        ours = ours or (seconds, reached)
        yield [
            f"`{method}`",
            arm,
            str(len(reached)),
            f"{seconds:.0f}",
            f"{seconds / ours[0]:.2f}",
            f"{1e6 * seconds / tokens:.0f}",
            f"{mean(reached):.4f} ± {_error(reached):.4f}",
            "" if first else ("yes" if agree(ours[1], reached) else "NO"),
        ]


def agree(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Returns whether the means differ by no more than the noise of the seeds."""
    error = math.hypot(_error(ours), _error(theirs))
    return abs(mean(ours) - mean(theirs)) <= ERRORS * error + 1e-9


def _error(found: Sequence[float]) -> float:
    return math.sqrt(variance(found) / len(found)) if len(found) > 1 else 0.0


def units_of(given: argparse.Namespace) -> Iterator[Unit]:
    """Yields what is to be done, the arms of a round after each other."""
    data_dir = str(given.data_dir.resolve()) if given.data_dir else ""
    bed = Bed(given.task, given.train_size, given.model, data_dir, given.epochs)
    size = -(-given.configs // given.rounds)
    for start in range(0, given.configs, size):
        points = tuple(range(start, min(start + size, given.configs)))
        for method in given.methods:
            for arm in ARMS[method]:
                yield Unit(arm, method, bed, points, given.seeds, given.threads)


def main() -> None:
    """Runs what is missing and prints the table; exit code 1 where scores do not agree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, help="GLUE's TSV files")
    parser.add_argument("--storage", type=Path, default=Path("peers-storage"))
    parser.add_argument("--minutes", type=float, default=math.inf, help="no unit starts later")
    parser.add_argument("--task", default="cola")
    parser.add_argument("--train-size", type=int, default=100)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--methods", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--configs", type=int, default=4, choices=(1, 2, 3, 4))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=0, help="0: the protocol's")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=cores(), help="cores of an arm")
    parser.add_argument("--engine", type=Path, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        run_engine(*given.engine)
        return
    until, done = time.monotonic() + 60 * given.minutes, {}
    for unit in units_of(given):
        folder = given.storage.resolve() / digest(asdict(unit))[:16]
        record = folder.with_suffix(".json")
        if not record.exists() and time.monotonic() < until:
            record_as = record.with_suffix(".part")
            record_as.write_text(json.dumps(asdict(run(unit, folder))), encoding="utf-8")
            record_as.replace(record)
        if record.exists():
            done[unit] = Found(**json.loads(record.read_text(encoding="utf-8")))
            print(unit.arm, unit.method, unit.points, f"{done[unit].seconds:.0f} s", flush=True)
    lines = list(table(done))
    print(header("accelerate", "ray"), *lines, sep="\n")
    sys.exit(any("| NO |" in line for line in lines))


if __name__ == "__main__":
    main()
