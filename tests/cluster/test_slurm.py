"""Tests of the Slurm batch script with fake `srun`, `scontrol`, `ray` and `sclsearch` commands.

`srun` runs its command on this machine, and `ray` runs the command after `--`, as
`ray symmetric-run` does on the first node.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cluster.conftest import FOLDER, ROOT
from tests.processes import wait_for

SCRIPT = FOLDER / "slurm" / "sclsearch.sbatch"
FAKE_COMMANDS = {
    "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
    "hostname": "echo 10.0.0.1 172.17.0.1",
    "apptainer": """echo "$@" > "$HOME/apptainer"
        while [[ $1 != *.sif ]]; do shift; done; shift; exec "$@" """,
    "scontrol": 'echo "$@" >> "$HOME/requeued"',
    "ray": """echo "$@" >> "$HOME/ray"; env > "$HOME/environment"
        (stat --format=%a "$RAY_AUTH_TOKEN_PATH" "${RAY_AUTH_TOKEN_PATH%/*}"
        wc -c < "$RAY_AUTH_TOKEN_PATH"; umask) > "$HOME/private"
        [[ -e "$HOME/no-head" ]] && exit 0
        while [[ $1 != -- ]]; do shift; done; shift; exec "$@" """,
    "sclsearch": """echo "$@" > "$HOME/sclsearch"
        [[ -e "$HOME/wait" ]] && sleep 1
        exit "$(cat "$HOME/code" 2> /dev/null || echo 0)" """,
}
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Return a function that starts the script as Slurm does, with fake commands on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in FAKE_COMMANDS.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "SLURM_SUBMIT_DIR": str(ROOT),
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_CPUS_PER_TASK": "8",
        "SLURM_GPUS_ON_NODE": "4",
    }

    def run(*arguments: str, **variables: str | None) -> "subprocess.Popen[str]":
        command, pipe = ["bash", str(SCRIPT), *arguments], subprocess.PIPE
        own = {name: text for name, text in {**environment, **variables}.items() if text}
        return subprocess.Popen(command, env=own, stderr=pipe, text=True)

    return run


def test_the_script_runs_a_command_on_all_nodes_with_a_new_token_that_is_deleted(
    start: Start, tmp_path: Path, env_sh: Mapping[str, str]
) -> None:
    before = os.umask(0o027)
    process = start("tune", "--method", "scl", "--set", "tau=0.3 ")
    os.umask(before)
    _, log = process.communicate(timeout=60)
    assert (process.returncode, log) == (0, "")
    ray_arguments = (tmp_path / "ray").read_text(encoding="utf-8")
    assert ray_arguments.startswith("symmetric-run --address 10.0.0.1:6379 --min-nodes 2 ")
    assert "--num-cpus=8 --num-gpus=4 -- " in ray_arguments
    tune = (tmp_path / "sclsearch").read_text(encoding="utf-8")
    assert tune == "tune --method scl --set tau=0.3  --address auto\n"
    # The modes of the token and its folder, its length and the umask of the user.
    assert (tmp_path / "private").read_text().split() == ["600", "700", "64", "0027"]
    assert not list(tmp_path.glob(".sclsearch-*"))
    lines = (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
    own = {"HF_HOME": f"{tmp_path}/.cache/huggingface", "RAY_TMPDIR": "/tmp/scl-17"}
    assert {f"{name}={value}" for name, value in {**env_sh, **own}.items()} <= set(lines)


def test_with_an_image_ray_runs_in_it_with_gpus_scratch_and_shared_folders(
    start: Start, tmp_path: Path
) -> None:
    variables = {"SCLSEARCH_IMAGE": "/shared/one.sif", "SCLSEARCH_BIND": "/shared,/data"}
    process = start("confirm", "mine", SLURM_TMPDIR="/scratch/17", **variables)
    _, log = process.communicate(timeout=60)
    assert (process.returncode, log) == (0, "")
    command = (tmp_path / "apptainer").read_text(encoding="utf-8")
    folders = f"/scratch/17,{tmp_path}/.cache/huggingface,/shared,/data"
    assert command.startswith(f"exec --nv --bind {folders} /shared/one.sif ray symmetric-run ")
    assert "RAY_TMPDIR=/scratch/17/scl-17\n" in (tmp_path / "environment").read_text()
    assert (tmp_path / "sclsearch").read_text() == "confirm mine --address auto\n"


def test_machines_without_gpus_offer_none(start: Start, tmp_path: Path) -> None:
    process = start("tune", SLURM_GPUS_ON_NODE=None)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert " --num-gpus=0 -- " in (tmp_path / "ray").read_text(encoding="utf-8")


def test_the_job_ends_with_the_exit_code_of_tune_and_fails_if_tune_did_not_run(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "code").write_text("3", encoding="utf-8")
    process = start()
    process.communicate(timeout=60)
    assert process.returncode == 3
    (tmp_path / "no-head").touch()
    process = start()
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert log.startswith("sclsearch.sbatch: Ray must start on 10.0.0.1 and all other machines")


def test_the_signal_before_the_time_limit_requeues_the_job_and_lets_it_run(
    start: Start, tmp_path: Path
) -> None:
    directives = re.findall(r"^#SBATCH (.*)$", SCRIPT.read_text(), flags=re.MULTILINE)
    assert {"--signal=B:USR1@120", "--requeue"} <= {*directives}
    (tmp_path / "wait").touch()
    process = start()
    wait_for("the search", (tmp_path / "sclsearch").exists, 60)
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert (tmp_path / "requeued").read_text(encoding="utf-8") == "requeue 17\n"
    assert process.returncode == 0
