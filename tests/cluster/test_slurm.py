"""The batch script, run by bash with stand-ins for Slurm's and Ray's commands, and its header.

Only a Slurm is missing: srun runs its command here, and `ray` does what `ray symmetric-run` does on
the first machine, which is to run what stands behind `--`.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "slurm/sclsearch.sbatch"
HEADER = {
    "--ntasks-per-node": "1",
    "--exclusive": "",
    "--requeue": "",
    "--open-mode": "append",
    "--signal": "B:USR1@120",
}
COMMANDS = {
    "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
    "hostname": "echo 10.0.0.1 172.17.0.1",
    "scontrol": 'echo "$@" >> "$HOME/requeued"',
    "ray": (
        'echo "$@" >> "$HOME/ray"; env > "$HOME/environment"\n'
        'stat --format=%a "$RAY_AUTH_TOKEN_PATH" "${RAY_AUTH_TOKEN_PATH%/*}" > "$HOME/modes"\n'
        'wc -c < "$RAY_AUTH_TOKEN_PATH" > "$HOME/length"; umask > "$HOME/umask"\n'
        '[[ -e "$HOME/no-head" ]] && exit 0\n'
        'while [[ $1 != -- ]]; do shift; done; shift; exec "$@"'
    ),
    "sclsearch": (
        'echo "$@" > "$HOME/sclsearch"\n'
        '[[ -e "$HOME/wait" ]] && sleep 1\n'
        'exit "$(cat "$HOME/code" 2> /dev/null || echo 0)"'
    ),
}

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Returns what starts the script as Slurm would, with the stand-ins first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in COMMANDS.items():
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

    def run(*arguments: str) -> "subprocess.Popen[str]":
        command = ["bash", str(ROOT / "cluster" / SCRIPT), *arguments]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    return run


def test_the_study_runs_on_all_machines_under_a_token_of_its_own(
    start: Start, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    process = start("--method", "scl", "--set", "tau=0.3 ")
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    told = (tmp_path / "ray").read_text(encoding="utf-8")
    assert told.startswith("symmetric-run --address 10.0.0.1:6379 --min-nodes 2 ")
    assert "--num-cpus=8 --num-gpus=4 -- " in told
    tune = (tmp_path / "sclsearch").read_text(encoding="utf-8")
    assert tune == "tune --method scl --set tau=0.3  --address auto\n"
    assert (tmp_path / "modes").read_text(encoding="utf-8").split() == ["600", "700"]
    assert (tmp_path / "length").read_text(encoding="utf-8").strip() == "64"
    lines = (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
    own = {"HF_HOME": f"{tmp_path}/.cache/huggingface", "RAY_TMPDIR": "/tmp/scl-17"}
    assert {f"{name}={value}" for name, value in {**settings, **own}.items()} <= set(lines)


def test_what_the_study_stores_is_as_open_as_the_user_wants(start: Start, tmp_path: Path) -> None:
    before = os.umask(0o027)
    process = start()
    os.umask(before)
    process.communicate(timeout=60)
    assert (tmp_path / "umask").read_text(encoding="utf-8") == "0027\n"


def test_nothing_of_the_token_is_left_or_told(start: Start, tmp_path: Path) -> None:
    _, log = start().communicate(timeout=60)
    assert not list(tmp_path.glob(".sclsearch-*"))
    assert log == ""


@pytest.mark.parametrize("code", [1, 2, 3, 130])
def test_the_exit_code_of_the_study_is_that_of_the_job(
    code: int, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "code").write_text(str(code), encoding="utf-8")
    process = start()
    process.communicate(timeout=60)
    assert process.returncode == code


def test_a_head_that_could_not_start_is_a_failure_though_ray_ends_with_0(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "no-head").touch()
    process = start()
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert log == (
        "sclsearch.sbatch: Ray must start on 10.0.0.1 and all other machines, but did not; see "
        "above.\n"
    )


def test_shortly_before_its_time_is_over_the_job_is_requeued_and_trains_on(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "wait").touch()
    (tmp_path / "code").write_text("1", encoding="utf-8")
    process = start()
    end = time.monotonic() + 60
    while not (tmp_path / "sclsearch").exists() and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert (tmp_path / "requeued").read_text(encoding="utf-8") == "requeue 17\n"
    assert process.returncode == 1


def faults(text: str) -> list[str]:
    """Returns what is wrong with the header, which Slurm would read."""
    lines = text.splitlines()
    body = next(number for number, line in enumerate(lines) if line and line[0] != "#")
    pairs = [line.split()[1].partition("=") for line in lines if line.startswith("#SBATCH")]
    given = {name: value for name, _, value in pairs}
    found = [f"{name}={value}" for name, value in HEADER.items() if given.get(name) != value]
    if lines[0] != "#!/usr/bin/env bash":
        found.append("the first line must name bash")
    if any(line.startswith("#SBATCH") for line in lines[body:]):
        found.append("Slurm reads no #SBATCH behind the first command")
    return found


def test_the_header_has_no_fault(read: Callable[[str], str]) -> None:
    assert faults(read(SCRIPT)) == []
