"""Fixtures for a study on simulated machines and its results on one undisturbed machine."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.machines.machines import Machine, Machines, missing_requirement
from tests.processes import PATIENCE
from tests.studies import SPACE, reproducible_results, stored

if TYPE_CHECKING:
    import subprocess

# The command line; it also prints the cause of each worker failure.
DRIVER = """
from sclsearch.cli import main
from sclsearch.search.scheduler import Scheduler

record_failure = Scheduler.record_failure

def print_and_record(scheduler, task, failure):
    print("worker failure:", failure.cause, failure.message, flush=True)
    record_failure(scheduler, task, failure)

Scheduler.record_failure = print_and_record
main()
"""
CONFIGS, SEEDS = 12, 2


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Return the network of simulated machines; skip the test where there can be none."""
    reason = missing_requirement()
    if reason:
        pytest.skip(reason)
    machines = Machines(tmp_path_factory.getbasetemp())
    yield machines
    machines.end()


@dataclass(frozen=True)
class Search:
    """Command that runs a study on any machine, with its storage and the name of its log."""

    command: Sequence[str]
    storage: Path
    log: str

    def start(self, machine: Machine, *options: str) -> "subprocess.Popen[bytes]":
        words = (*self.command, f"--storage={self.storage}", *options)
        return machine.start("python", "-c", DRIVER, *words, log=self.log)

    def stored(self) -> Mapping[str, Any]:
        return stored(self.storage)

    def results(self) -> Mapping[str, Any]:
        """Return the parts of the results that do not depend on machine and time."""
        return reproducible_results(self.storage)

    def output(self, machine: Machine) -> str:
        return (machine.logs / self.log).read_text(encoding="utf-8")

    def failures(self, machine: Machine) -> Counter[str]:
        """Return the number of worker failures by cause."""
        found = re.findall(r"^worker failure: (\S+)", self.output(machine), re.MULTILINE)
        return Counter(found)


@pytest.fixture(scope="session")
def search_named(
    tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Search]:
    """Return a function that returns the study with a storage folder of a given name."""
    folder = tmp_path_factory.mktemp("search")
    space = folder / "space.yaml"
    space.write_text(SPACE, encoding="utf-8")
    command = ["tune", "--method=scl", "--task=demo", f"--model={tiny_bert}", f"--space={space}"]
    command += ["--train-size=40", "--rule=mean", f"--configs={CONFIGS}", f"--seeds={SEEDS}"]
    command += ["--study=s", "--concurrency=2", "--gpus-per-trial=0", "--tracking=none"]
    # Seed runs of about a second: the loss of a machine must meet one that is still training.
    command += ["--epochs=100"]
    return lambda name: Search(tuple(command), folder / name, name)


@pytest.fixture(scope="session")
def undisturbed(machines: Machines, search_named: Callable[[str], Search]) -> Mapping[str, Any]:
    """Return the results of the study on one machine without failures."""
    alone = machines.start(9)
    search = search_named("undisturbed")
    code = search.start(alone).wait(PATIENCE)
    machines.kill(9)
    assert code == 0, search.output(alone)
    results = search.results()
    assert len(results) == CONFIGS * SEEDS
    return results
