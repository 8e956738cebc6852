"""Time and scores of `sclsearch tune` and of transformers' Trainer, in one interleaved run.

    python -m benchmarks.peers --data-dir glue [--storage FOLDER] [--minutes 15]

Trains the same configurations and seeds with `sclsearch tune`, with Trainer in a plain loop, and
for `scl` with Trainer.hyperparameter_search on Ray. All arms have the same model, rows, epochs,
batches and cores. For `supcl-seq` the loop has one forward pass per view and an uncached probe.
Each round gives every arm some of the configurations. Finished units stay in the storage folder, so
the same command resumes. Without Ray the arm `engine` replaces `sclsearch tune`: the same seed runs
without a search.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, variance

from benchmarks.arms import ARMS, Unit, UnitResult, run, run_engine
from benchmarks.machine import cores, header, markdown
from benchmarks.points import Setup
from sclsearch.canonical import digest

ERRORS = 3
"""Standard errors of a difference within which scores agree."""


def table(done: Mapping[Unit, UnitResult]) -> Iterator[str]:
    """Yield the lines of the table: every arm over all its rounds."""
    columns = ("method", "arm", "seed runs", "seconds", "× ours", "µs a token", "test", "agrees")
    yield from markdown(columns, [row for method in ARMS for row in rows(done, method)])


def rows(done: Mapping[Unit, UnitResult], method: str) -> Iterator[list[str]]:
    """Yield the rows of a method, of the rounds that all its arms have."""
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
    """Return whether the means differ by no more than the noise of the seeds."""
    error = math.hypot(_error(ours), _error(theirs))
    return abs(mean(ours) - mean(theirs)) <= ERRORS * error + 1e-9


def _error(found: Sequence[float]) -> float:
    return math.sqrt(variance(found) / len(found)) if len(found) > 1 else 0.0


def units_of(given: argparse.Namespace) -> Iterator[Unit]:
    """Yield the units, the arms of a round after each other."""
    data_dir = str(given.data_dir.resolve()) if given.data_dir else ""
    setup = Setup(given.task, given.train_size, given.model, data_dir, given.epochs)
    size = -(-given.configs // given.rounds)
    for start in range(0, given.configs, size):
        points = tuple(range(start, min(start + size, given.configs)))
        for method in given.methods:
            for arm in ARMS[method]:
                yield Unit(arm, method, setup, points, given.seeds, given.threads)


def main() -> None:
    """Run what is missing and print the table; exit code 1 where scores do not agree."""
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
            done[unit] = UnitResult(**json.loads(record.read_text(encoding="utf-8")))
            print(unit.arm, unit.method, unit.points, f"{done[unit].seconds:.0f} s", flush=True)
    lines = list(table(done))
    print(header("accelerate", "ray"), *lines, sep="\n")
    sys.exit(any("| NO |" in line for line in lines))


if __name__ == "__main__":
    main()
