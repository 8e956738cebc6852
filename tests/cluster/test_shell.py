"""Shell files are read by bash and by shellcheck, without a word."""

import subprocess
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.cluster.conftest import Caught, Mistake

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


MISTAKES = [
    ("env.sh", "export HF_HOME=", "export HF_HOME = ", "SC2290"),
    ("env.sh", '"${HF_HOME:-', '"${HF_HOME:-"', "unexpected"),
    ("slurm/sclsearch.sbatch", 'rm -rf "$private"\n', "rm -rf $private\n", "SC2086"),
    ("slurm/sclsearch.sbatch", "\nfi\n", "\n", "syntax error"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=itemgetter(-1))
def test_a_mistake_is_caught(mistake: "Mistake", caught: "Caught") -> None:
    caught(mistake, lambda text: [faults(text)])
