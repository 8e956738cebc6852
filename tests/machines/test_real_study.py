"""A real task on three machines with a GPU each, two of which are lost: the figures of one machine.

The GPUs are Ray's alone: they decide where a seed run is trained, and torch trains on the CPU.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.machines.conftest import Search
from tests.machines.room import Room, wait_for
from tests.studies import LOST

LONG = 2400.0
CONFIGS, SEEDS = 3, 4
TRAINING, STAYING, POWERED_OFF, UNPLUGGED = (2, 3, 4), 2, 3, 4
# Which numerics a seed run gets is for the driver to say, after the GPUs that are asked for.
FAKE_GPUS = """
from sclsearch.study import resolve

resolve._numerics = lambda how: "cpu-fp32"
"""

pytestmark = [pytest.mark.machines, pytest.mark.timeout(2 * LONG)]


@pytest.fixture(scope="module")
def real(
    glue: Path, minilm: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Search]:
    """Returns what gives the study of `scl` on CoLA, stored under a name."""
    folder = tmp_path_factory.mktemp("real")
    shutil.copytree(glue / "CoLA", folder / "glue/CoLA")
    command = ["tune", "--method=scl", "--task=cola", "--train-size=100", "--model=minilm"]
    command += [f"--data-dir={folder / 'glue'}", f"--configs={CONFIGS}", f"--seeds={SEEDS}"]
    command += ["--set=epochs=4", "--study=real", "--tracking=none"]
    return lambda name, before="": Search(command, folder / name, f"real-{name}", before)


@pytest.fixture(scope="module")
def alone(room: Room, real: Callable[..., Search]) -> Mapping[str, Any]:
    """Returns the figures of the study on one machine."""
    machine, search = room.machine(9), real("alone")
    code = search.start(machine, "--gpus-per-trial=0", "--concurrency=2").wait(LONG)
    room.off(9)
    assert code == 0, search.told(machine)
    assert len(search.stored()) == CONFIGS * SEEDS
    return search.figures()


def test_a_study_on_three_gpus_that_loses_two_machines(
    room: Room, real: Callable[..., Search], alone: Mapping[str, Any]
) -> None:
    search = real("lossy", FAKE_GPUS)
    head = room.cluster(*TRAINING, gpus=1)
    driver = search.start(head, "--address=auto", "--gpus-per-trial=1", "--concurrency=3")

    def at_work(number: int, stored: int) -> Callable[[], bool]:
        return lambda: search.at_work(room.on[number], stored, quiet=2)

    wait_for("a first machine to lose", at_work(POWERED_OFF, stored=1), LONG)
    room.off(POWERED_OFF)
    wait_for("a second machine to lose", at_work(UNPLUGGED, stored=4), LONG)
    room.network.unplug(UNPLUGGED)
    unplugged = time.time()
    assert driver.wait(LONG) == 0, search.told(head)
    room.off(1, *TRAINING)
    lost = search.lost(head)
    assert {*lost} <= LOST
    assert lost.total() >= 1  # what an unplugged machine stores in time is not lost
    assert search.figures() == alone
    later = [run for run in search.stored().values() if run["started"] > unplugged]
    assert {run["environment"]["host"] for run in later} == {f"machine{STAYING}"}
