"""Test of a study of CoLA on three machines, two of which are lost, against one machine.

Only Ray sees the GPUs, for scheduling; torch trains on the CPU.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.machines.conftest import Search
from tests.machines.machines import Machines
from tests.processes import wait_for
from tests.studies import LOST

TIMEOUT = 2400.0
CONFIGS, SEEDS = 3, 4
WORKERS, REMAINING, POWERED_OFF, UNPLUGGED = (2, 3, 4), 2, 3, 4
# The driver would choose numerics for a GPU because seed runs request one.
FAKE_GPUS = """
from sclsearch.study import resolve

resolve._numerics = lambda how: "cpu-fp32"
"""

pytestmark = [pytest.mark.machines, pytest.mark.timeout(2 * TIMEOUT)]


@pytest.fixture(scope="module")
def real(
    glue: Path, minilm: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Search]:
    """Return a function that returns the study of `scl` on CoLA with a storage of a given name."""
    folder = tmp_path_factory.mktemp("real")
    shutil.copytree(glue / "CoLA", folder / "glue/CoLA")
    command = ["tune", "--method=scl", "--task=cola", "--train-size=100", "--model=minilm"]
    command += [f"--data-dir={folder / 'glue'}", f"--configs={CONFIGS}", f"--seeds={SEEDS}"]
    command += ["--set=epochs=4", "--study=real", "--tracking=none"]
    return lambda name, before="": Search(command, folder / name, f"real-{name}", before)


@pytest.fixture(scope="module")
def alone(machines: Machines, real: Callable[..., Search]) -> Mapping[str, Any]:
    """Return the results of the study on one machine."""
    machine, search = machines.start(9), real("alone")
    code = search.start(machine, "--gpus-per-trial=0", "--concurrency=2").wait(TIMEOUT)
    machines.kill(9)
    assert code == 0, search.output(machine)
    assert len(search.stored()) == CONFIGS * SEEDS
    return search.results()


def test_the_loss_of_two_of_three_machines_does_not_change_the_results(
    machines: Machines, real: Callable[..., Search], alone: Mapping[str, Any]
) -> None:
    search = real("lossy", FAKE_GPUS)
    head = machines.cluster(*WORKERS, gpus=1)
    driver = search.start(head, "--address=auto", "--gpus-per-trial=1", "--concurrency=3")

    def trains_on(number: int, stored: int) -> Callable[[], bool]:
        return lambda: search.trains_on(machines.running[number], stored, quiet=2)

    wait_for("a first machine to lose", trains_on(POWERED_OFF, stored=1), TIMEOUT)
    machines.kill(POWERED_OFF)
    wait_for("a second machine to lose", trains_on(UNPLUGGED, stored=4), TIMEOUT)
    machines.network.unplug(UNPLUGGED)
    unplugged = time.time()
    assert driver.wait(TIMEOUT) == 0, search.output(head)
    machines.kill(1, *WORKERS)
    failures = search.failures(head)
    assert {*failures} <= LOST
    assert failures.total() >= 1  # the unplugged machine may store its seed run in time
    assert search.results() == alone
    later = [run for run in search.stored().values() if run["started"] > unplugged]
    assert {run["environment"]["host"] for run in later} == {f"machine{REMAINING}"}
