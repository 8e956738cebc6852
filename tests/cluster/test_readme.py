"""What README tells is so: its files are there, its options exist, its token is made privately."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main

from sclsearch.cli import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "cluster" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
STUDIES = [line for line in LINES if re.search(r"\btune\b|sbatch", line)]


@pytest.mark.parametrize("line", STUDIES)
def test_a_study_is_told_by_options_that_exist(line: str) -> None:
    command = typer.main.get_command(app).commands["tune"]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    words = shlex.split(re.split(r"\btune|sclsearch\.sbatch", line)[1])
    assert {word for word in words if word.startswith("--")} <= known
    assert {"--method", "--task"} <= set(words)


def test_every_kind_of_cluster_has_its_study() -> None:
    assert len(STUDIES) >= 4


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\]\(([\w./-]+)\)", README))))
def test_a_file_that_is_linked_is_there(name: str) -> None:
    assert (ROOT / "cluster" / name).is_file()


def test_every_file_of_the_folder_is_linked() -> None:
    there = {
        str(path.relative_to(ROOT / "cluster"))
        for path in (ROOT / "cluster").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there - {"README.md"} == set(re.findall(r"\]\(([\w./-]+)\)", README))


@pytest.mark.parametrize("name", re.findall(r"\]\(#([\w-]+)\)", README))
def test_a_section_that_is_linked_is_there(name: str) -> None:
    titles = re.findall(r"^## (.+)$", README, flags=re.MULTILINE)
    assert name in {title.lower().replace(" ", "-") for title in titles}


def test_the_token_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    block = next(block for block in BLOCKS if "auth_token" in block)
    script = f'{block}\necho "$RAY_AUTH_MODE $RAY_AUTH_TOKEN_PATH"; umask'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    token = tmp_path / ".sclsearch-cluster" / "auth_token"
    mode, path, mask = done.stdout.split()
    assert (mode, path) == ("token", str(token))
    assert mask != "0077", "the shell goes on as it was"
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.parent.stat().st_mode & 0o777 == 0o700
    assert re.fullmatch("[0-9a-f]{64}", token.read_text(encoding="utf-8"))
    assert token.read_text(encoding="utf-8") not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["aws-gpu.yaml", "onprem.yaml"])
def test_the_launcher_is_called_as_its_file_wants(name: str, read: Callable[[str], str]) -> None:
    (up,) = (line for line in LINES if "ray up" in line and name in line)
    assert "--no-config-cache" in up
    assert ("RAY_UP_enable_autoscaler_v2=0" in up) == ("type: local" in read(name))
    assert any(line == f"ray down --yes cluster/{name}" for line in LINES)


def test_studies_on_a_head_without_gpu_say_what_they_want() -> None:
    submitted = [line for line in STUDIES if line.startswith("sclsearch submit")]
    assert submitted
    assert all("--gpus-per-trial 1 --concurrency" in line for line in submitted)
