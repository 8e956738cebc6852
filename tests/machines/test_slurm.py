"""Test of the Slurm batch script on two machines with a requeue at the time limit.

A fake `srun` runs its command on the machines, and a fake `scontrol` records its arguments.
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
from tests.machines.machines import ROOT, Machines
from tests.machines.namespaces import NAMESPACES
from tests.processes import PATIENCE, wait_for

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1200)]

STORED_BEFORE = 4
SRUN = f"""#!/bin/bash
machines=($MACHINES)
while [[ $1 == --* ]]; do
    [[ $1 == --nodes=1 ]] && machines=("${{machines[0]}}")
    shift
done
for n in "${{!machines[@]}}"; do
    SLURM_NODEID=$n nsenter --target "${{machines[n]}}" {" ".join(NAMESPACES)} -- "$@" &
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

StartJob = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def search(search_named: Callable[[str], Search]) -> Search:
    return search_named("slurm")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the shared home of the user with the fake Slurm commands."""
    for name, script in {"srun": SRUN, "scontrol": SCONTROL}.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
    return tmp_path


@pytest.fixture
def start_job(machines: Machines, search: Search, home: Path) -> StartJob:
    """Return a function that starts the job on two new machines."""

    def start() -> "subprocess.Popen[bytes]":
        nodes = [machines.start(5), machines.start(6)]
        own = {
            "HOME": str(home),
            "MACHINES": " ".join(str(machine.pid) for machine in nodes),
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


def test_a_requeued_study_has_the_results_of_an_undisturbed_one(
    machines: Machines,
    search: Search,
    home: Path,
    start_job: StartJob,
    undisturbed: Mapping[str, Any],
) -> None:
    job = start_job()
    wait_for("the middle of the study", lambda: len(search.stored()) >= STORED_BEFORE)
    job.send_signal(signal.SIGUSR1)
    wait_for("the requeue", (home / "requeued").exists)
    machines.kill(5, 6)
    assert job.wait(PATIENCE) != 0
    assert (home / "requeued").read_text(encoding="utf-8") == "requeue 17\n"
    before = len(search.stored())
    assert before < CONFIGS * SEEDS
    job = start_job()
    code = job.wait(PATIENCE)
    machines.kill(5, 6)
    assert code == 0, (home / "log").read_text(encoding="utf-8")
    assert search.results() == undisturbed
    assert search.trained_on("machine5")
    assert search.trained_on("machine6")
    assert not [*home.glob(".sclsearch-*")]
