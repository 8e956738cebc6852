"""The batch script on two machines of an allocation, whose time is over once before the study is.

A stand-in for srun runs its command on the machines, one for scontrol writes down what it is told.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.machines.conftest import CONFIGS, SEEDS, Search
from tests.machines.namespaces import APART
from tests.machines.room import PATIENCE, ROOT, Room, wait_for

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

STORED_BEFORE = 4
SRUN = f"""#!/bin/bash
machines=($MACHINES)
while [[ $1 == --* ]]; do
    [[ $1 == --nodes=1 ]] && machines=("${{machines[0]}}")
    shift
done
for n in "${{!machines[@]}}"; do
    SLURM_NODEID=$n nsenter --target "${{machines[n]}}" {" ".join(APART)} -- "$@" &
done
highest=0
for task in $(jobs -p); do
    wait "$task"
    code=$?
    ((code > highest)) && highest=$code
done
exit $highest
"""
SCONTROL = """#!/bin/bash
echo "$@" >> "$HOME/requeued"
"""

Turn = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def search(searching: Callable[[str], Search]) -> Search:
    return searching("slurm")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Returns the user's home, which all machines see, with Slurm's commands in it."""
    for name, script in {"srun": SRUN, "scontrol": SCONTROL}.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
    return tmp_path


@pytest.fixture
def turn(room: Room, search: Search, home: Path) -> Turn:
    """Returns what starts the job on two machines that were just switched on."""

    def start() -> "subprocess.Popen[bytes]":
        machines = [room.machine(5), room.machine(6)]
        own = {
            "HOME": str(home),
            "MACHINES": " ".join(str(machine.pid) for machine in machines),
            "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SLURM_SUBMIT_DIR": str(ROOT),
            "SLURM_JOB_ID": "17",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_CPUS_PER_TASK": "1",
            "SLURM_GPUS_ON_NODE": "0",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        script = str(ROOT / "cluster/slurm/sclsearch.sbatch")
        with (home / "log").open("ab") as log:
            return subprocess.Popen(
                ["bash", script, *search.command[1:], f"--storage={search.storage}"],
                cwd=ROOT,
                env={**kept, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    return start


def test_a_study_that_needs_two_turns_of_the_queue(
    room: Room, search: Search, home: Path, turn: Turn, undisturbed: Mapping[str, Any]
) -> None:
    job = turn()
    wait_for("the midst of the study", lambda: len(search.stored()) >= STORED_BEFORE)
    job.send_signal(signal.SIGUSR1)
    wait_for("the queue", (home / "requeued").exists)
    room.off(5, 6)
    assert job.wait(PATIENCE) != 0
    assert (home / "requeued").read_text(encoding="utf-8") == "requeue 17\n"
    before = len(search.stored())
    assert before < CONFIGS * SEEDS
    job = turn()
    code = job.wait(PATIENCE)
    room.off(5, 6)
    assert code == 0, (home / "log").read_text(encoding="utf-8")
    assert search.figures() == undisturbed
    assert search.trained_on("machine5")
    assert search.trained_on("machine6")
    assert not [*home.glob(".sclsearch-*")]
