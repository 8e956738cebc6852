"""Timeline of a short search: when its first seed run starts, and when the command ends.

    python -m benchmarks.start [--rounds 3] [--code FOLDER …] [-- OPTION …]

Each round runs `sclsearch train` twice on the embedded task, in a new storage. `--code` names
checkouts of sclsearch, which take turns. Options after `--` go to the command.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.machine import header, markdown
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import storage_folder

COMMAND = (
    *("train", "--method", "ce", "--task", "demo", "--train-size", "40"),
    *("--model", "minilm", "--seeds", "3", "--set", "epochs=1"),
)
CODE = Path(__file__).parents[1]


def timeline(code: Path, storage: Path, options: Sequence[str]) -> dict[str, float]:
    """Return seconds from the start of the command, and its CPU seconds."""
    found, begun, used = {}, time.time(), _children()
    seconds = run(code, storage, options)
    found["CPU s"] = _children() - used
    stored = RunStore(storage_folder(storage, make=False)).all()
    runs = sorted(stored, key=lambda run: run.started)
    found["first seed run"] = runs[0].started - begun
    found["last one ends"] = runs[-1].started + runs[-1].seconds - begun
    found["training"] = sum(run.seconds for run in runs)
    found["command ends"] = seconds
    used = _children()
    found["again"] = run(code, storage, options)
    found["again, CPU s"] = _children() - used
    return found


def run(code: Path, storage: Path, options: Sequence[str]) -> float:
    """Run the command with a checkout; return its seconds."""
    begun = time.time()
    subprocess.run(
        [sys.executable, "-m", "sclsearch", *COMMAND, "--storage", str(storage), *options],
        env={**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"},
        cwd=storage,  # Ray's workers import from the folder in which the command runs
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.time() - begun


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure each checkout and print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--code", type=Path, nargs="+", default=[CODE])
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    found: Mapping[Path, list[dict[str, float]]] = {code: [] for code in given.code}
    for _ in range(given.rounds):
        for code, timelines in found.items():
            with tempfile.TemporaryDirectory(prefix="start-") as folder:
                timelines.append(timeline(code.resolve(), Path(folder), given.options))
    names = list(found[given.code[0]][0])
    rows = [
        [
            str(code),
            *(f"{statistics.median(each[name] for each in timelines):.1f}" for name in names),
        ]
        for code, timelines in found.items()
    ]
    print(header("ray", "mlflow"), *markdown(["code", *names], rows), sep="\n")


if __name__ == "__main__":
    main()
