"""Shell files are read by bash and by shellcheck, without a word."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

SHELLCHECK = str(Path(sys.executable).parent / "shellcheck")
FILES = ("env.sh", "slurm/sclsearch.sbatch")
LISTS = (
    "initialization_commands",
    "setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)


def faults(text: str) -> str:
    """Returns what bash and shellcheck find in a shell file."""
    read_only = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, text=True, check=False
    )
    # The files that it sources are read from the root of the checkout.
    command = [SHELLCHECK, "--external-sources", "--exclude=SC1091", "-"]
    checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return read_only.stderr + checked.stdout + checked.stderr


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_file_has_no_fault(name: str, read: Callable[[str], str]) -> None:
    assert faults(read(name)) == ""


@pytest.mark.parametrize("name", ["aws-gpu.yaml", "onprem.yaml"])
def test_the_commands_of_the_launcher_have_no_fault(name: str, read: Callable[[str], str]) -> None:
    config = yaml.safe_load(read(name))
    commands = [command for key in LISTS for command in config[key]]
    # SC1090: a file of the machine is sourced. SC2154: the launcher sets RAY_HEAD_IP.
    script = "# shellcheck shell=bash disable=SC1090,SC2154,SC2086\n" + "\n".join(commands)
    assert faults(script + "\n") == ""
