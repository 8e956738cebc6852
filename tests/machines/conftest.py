"""A study of the demo task on machines, and the same one undisturbed on a machine alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.machines.namespaces import lacking
from tests.machines.room import PATIENCE, Machine, Room
from tests.studies import SPACE, amid, figures, stored

if TYPE_CHECKING:
    import subprocess

# The command line, which beside its own lines writes what was lost.
DRIVER = """
from sclsearch.cli import main
from sclsearch.search.scheduler import Scheduler

record_failure = Scheduler.record_failure

def printed(scheduler, task, failure):
    print("lost:", failure.cause, failure.message, flush=True)
    record_failure(scheduler, task, failure)

Scheduler.record_failure = printed
main()
"""
CONFIGS, SEEDS = 12, 2


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
    """A study that any machine can run, and where it is stored.

    Attributes:
        command: Its command line.
        storage: Where it is stored.
        log: File that takes what the command writes.
        before: Python that its driver runs first.
    """

    command: Sequence[str]
    storage: Path
    log: str
    before: str = ""

    def start(self, machine: Machine, *options: str) -> "subprocess.Popen[bytes]":
        """Starts it on a machine."""
        storage = ("--storage", str(self.storage))
        return machine.start(
            "python", "-c", self.before + DRIVER, *self.command, *storage, *options, log=self.log
        )

    def stored(self) -> Mapping[str, Any]:
        """Returns the seed runs that are stored, by key."""
        return stored(self.storage)

    def at_work(self, machine: Machine, stored: int, quiet: float) -> bool:
        """Returns whether so many seed runs are stored and a machine is amid another one."""
        return amid(self.storage, stored, quiet) and machine.trains()

    def figures(self) -> Mapping[str, Any]:
        """Returns what must not depend on where and when a seed run was trained."""
        return figures(self.storage)

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
