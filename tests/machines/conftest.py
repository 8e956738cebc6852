"""A study of the demo task on machines, and the same one undisturbed on a machine alone."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.machines.room import PATIENCE, Machine, Room, lacking

if TYPE_CHECKING:
    import subprocess

# The command line, which beside its own lines writes what was lost.
DRIVER = """
from sclsearch.cli import main
from sclsearch.search.board import Board

lose = Board.lose

def told(board, task, cause, message):
    print("lost:", cause, message, flush=True)
    lose(board, task, cause, message)

Board.lose = told
main()
"""
SPACE = """
method: scl
source: a test
published:
  - {tau: 0.3, lam: 0.9, learning_rate: 1e-2}
fixed: {epochs: 8, batch_size: 8, max_length: 32, pooling: mean}
space:
  tau: {type: choice, values: [0.1, 0.3, 0.5]}
  lam: {type: choice, values: [0.5, 0.9]}
  learning_rate: {type: log, low: 1e-3, high: 3e-2}
"""
CONFIGS, SEEDS = 12, 2
FIGURES = ("identity", "evaluations", "kept", "test", "predictions", "failure")


@pytest.fixture(scope="session")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Returns where machines are; skips where there can be none."""
    reason = lacking()
    if reason:
        pytest.skip(reason)
    room = Room(tmp_path_factory.getbasetemp())
    yield room
    room.end()


@dataclass(frozen=True)
class Search:
    """A study of the demo task that any machine can run, and where it is stored."""

    command: Sequence[str]
    storage: Path
    log: str

    def start(self, machine: Machine, *options: str) -> "subprocess.Popen[bytes]":
        """Starts it on a machine."""
        storage = ("--storage", str(self.storage))
        return machine.start(
            "python", "-c", DRIVER, *self.command, *storage, *options, log=self.log
        )

    def stored(self) -> Mapping[str, Any]:
        """Returns the seed runs that are stored, by key."""
        files = (self.storage / "runs").glob("*.json")
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}

    def figures(self) -> Mapping[str, Any]:
        """Returns what must not depend on where and when a seed run was trained."""
        return {key: [run[name] for name in FIGURES] for key, run in self.stored().items()}

    def trained_on(self, machine: str) -> list[Any]:
        """Returns the seed runs that a machine stored."""
        return [run for run in self.stored().values() if run["environment"]["host"] == machine]

    def told(self, machine: Machine) -> str:
        """Returns what the command wrote."""
        return (machine.logs / self.log).read_text(encoding="utf-8")

    def lost(self, machine: Machine) -> Counter[str]:
        """Returns how often seed runs were lost, by cause."""
        lines = self.told(machine).splitlines()
        return Counter(line.split()[1] for line in lines if line.startswith("lost: "))


@pytest.fixture(scope="session")
def searching(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Search]:
    """Returns what gives the study, stored under a name."""
    folder = tmp_path_factory.mktemp("search")
    space = folder / "space.yaml"
    space.write_text(SPACE, encoding="utf-8")
    command = ["tune", "--method=scl", "--task=demo", f"--model={tiny_bert}", f"--space={space}"]
    command += ["--train-size=40", "--rule=mean", f"--configs={CONFIGS}", f"--seeds={SEEDS}"]
    command += ["--study=s", "--concurrency=2", "--gpus-per-trial=0", "--tracking=none"]
    return lambda name: Search(tuple(command), folder / name, name)


@pytest.fixture(scope="session")
def undisturbed(room: Room, searching: Callable[[str], Search]) -> Mapping[str, Any]:
    """Returns the figures of the study that one machine ran alone."""
    alone = room.machine(9)
    search = searching("undisturbed")
    code = search.start(alone).wait(PATIENCE)
    room.off(9)
    assert code == 0, search.told(alone)
    figures = search.figures()
    assert len(figures) == CONFIGS * SEEDS
    return figures
