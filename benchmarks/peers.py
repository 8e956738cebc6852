"""Time and scores of `sclsearch tune` and of transformers' Trainer on the same seed runs.

    python -m benchmarks.peers --data-dir glue

Trains the configurations of `peers-scl.yaml` and `peers-supcl-seq.yaml` with MiniLM on 100 examples
of SST-2: with `sclsearch tune`, with Trainer in a plain loop, and for `scl` also with
Trainer.hyperparameter_search on Ray. All arms have the same rows, settings and cores. The arms take
turns, with two configurations each. The time is that of a process, from its start to its end. The
last row of a method is the floor of every program that trains them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
import yaml

import sclsearch
from benchmarks.machine import cores, header, markdown
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.training.device import fast_bf16
from sclsearch.training.engine import train

OURS, BF16 = "sclsearch tune", "sclsearch tune --precision bf16"
LOOP, SEARCH = "Trainer, a loop", "Trainer.hyperparameter_search"
FLOOR = "matrix products alone"
ARMS: Mapping[str, tuple[str, ...]] = {
    "scl": (OURS, LOOP, SEARCH, BF16),
    "supcl-seq": (OURS, LOOP, BF16),
}
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
TURN = 2
"""Configurations that an arm trains before the next arm trains them."""
LEGEND = """\
MiniLM on 100 examples of SST-2, {} epochs. *test*: mean accuracy ± standard error over the seed
runs. *agrees*: within three standard errors of ours. *matrix products alone*: what the seed runs of
our fp32 search spend in them, on all cores.
"""
ERRORS = 3
"""Standard errors of a difference within which scores agree."""
Measured = tuple[float, list[float]]
"""Seconds, and the test score of each seed run."""


def study_of(method: str, given: argparse.Namespace, space: str) -> tuple[dict[str, Any], ...]:
    """Return the settings of the studies of all arms, and their options."""
    study = {
        "method": method,
        "task": "sst2",
        "train_size": 100,
        "model": "minilm",
        "protocol": "gunel-fewshot",
        "space": space,
    }
    data = str(given.data_dir.resolve())
    return study, {"data_dir": data, "seeds": given.seeds, "rule": "mean"}


def measured(
    arm: str, method: str, start: int, given: argparse.Namespace, folder: Path
) -> Measured:
    """Run one turn of an arm in a separate process."""
    space = yaml.safe_load(Path(f"benchmarks/peers-{method}.yaml").read_text(encoding="utf-8"))
    space["published"] = space["published"][start : min(start + TURN, given.configs)]
    (folder / "space.yaml").write_text(json.dumps(space), encoding="utf-8")
    study, options = study_of(method, given, str(folder / "space.yaml"))
    if arm in (OURS, BF16):
        words = ["sclsearch", "tune", "--set", f"epochs={given.epochs}"]
        search = {
            "configs": len(space["published"]),
            "precision": "bf16" if arm == BF16 else "fp32",
            "gpus_per_trial": 0,
            "concurrency": cores(),
            "test_scores": "all",
            "tracking": "none",
            "storage": folder / "storage",
            "study": "peers",
        }
        for name, value in {**study, **options, **search}.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
    else:
        work = {
            "study": {**study, "settings": {"epochs": given.epochs}},
            "options": options,
            "search": arm == SEARCH,
            "cores": cores(),
        }
        (folder / "work.json").write_text(json.dumps(work), encoding="utf-8")
        words = ["benchmarks.trainers", str(folder)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(cores() if arm == LOOP else 1),
        # Ray starts its workers in another folder.
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
        "TOKENIZERS_PARALLELISM": "false",
    }
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", *words], env=environment, check=True)
    seconds = time.perf_counter() - begun
    if arm in (OURS, BF16):
        frame = sclsearch.select("peers", storage=folder / "storage").frame()
        return seconds, frame["test"].tolist()
    return seconds, json.loads((folder / "scores.json").read_text(encoding="utf-8"))


def products(method: str, given: argparse.Namespace, number: int) -> float:
    """Return the seconds of a seed run, on one core, that are matrix products."""
    torch.set_num_threads(1)
    study, options = study_of(method, given, f"benchmarks/peers-{method}.yaml")
    spec = StudySpec(**study, settings={"epochs": given.epochs})
    found = resolve(spec, RunOptions(**options, gpus_per_trial=0))
    splits = [found.splits(number)]
    run = found.seed_run_spec(found.space.published[0], number, splits[0])
    with torch.profiler.profile() as profile:
        train(run, found.tokenized(splits)[found.lengths()[-1]])
    entries = profile.key_averages()
    return float(sum(one.self_cpu_time_total for one in entries if one.key in PRODUCTS)) / 1e6


def floor(method: str, given: argparse.Namespace) -> float:
    """Return the seconds of the matrix products of all seed runs of a method on all cores."""
    with ProcessPoolExecutor(cores(), get_context("spawn")) as pool:
        each = list(pool.map(partial(products, method, given), range(cores())))
    return mean(each) * float(given.configs * given.seeds) / cores()


def rows(method: str, found: Mapping[str, list[Measured]], least: float) -> Iterator[list[str]]:
    """Yield the row of each arm of a method, and that of the matrix products."""
    ours: Any = None
    for arm, turns in found.items():
        seconds = sum(turn[0] for turn in turns)
        scores = [score for turn in turns for score in turn[1]]
        middle, error = mean(scores), stdev(scores) / len(scores) ** 0.5
        agrees = ""
        if ours is None:
            ours = seconds, middle, error
        else:
            most = ERRORS * (error**2 + ours[2] ** 2) ** 0.5
            agrees = "yes" if abs(middle - ours[1]) <= most else "NO"
        yield [
            f"`{method}`",
            arm,
            str(len(scores)),
            f"{seconds:.0f}",
            f"{seconds / ours[0]:.2f}",
            f"{middle:.4f} ± {error:.4f}",
            agrees,
        ]
    yield [f"`{method}`", FLOOR, "", f"{least:.0f}", f"{least / ours[0]:.2f}", "", ""]


def main() -> None:
    """Run every arm and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with GLUE's SST-2/")
    parser.add_argument("--methods", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--configs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=16)
    given = parser.parse_args()
    bf16 = fast_bf16(torch.device("cpu"))
    arms = {name: [arm for arm in ARMS[name] if arm != BF16 or bf16] for name in given.methods}
    found: dict[str, dict[str, list[Measured]]] = {
        method: {arm: [] for arm in names} for method, names in arms.items()
    }
    for start in range(0, given.configs, TURN):
        for method, names in arms.items():
            for arm in names:
                with tempfile.TemporaryDirectory() as folder:
                    found[method][arm].append(measured(arm, method, start, given, Path(folder)))
    columns = ("method", "arm", "seed runs", "seconds", "× ours", "test", "agrees")
    floors = {method: floor(method, given) for method in arms}
    body = [row for method in arms for row in rows(method, found[method], floors[method])]
    lines = markdown(columns, body)
    print(header("accelerate", "ray"), LEGEND.format(given.epochs), *lines, sep="\n")


if __name__ == "__main__":
    main()
