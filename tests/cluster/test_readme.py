"""Tests of the commands of cluster/README.md."""

import re
import shlex
import subprocess
from pathlib import Path

from tests.cluster.conftest import read, tune_options

BLOCKS = re.findall(r"```sh\n(.*?)```", read("README.md"), flags=re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]


def test_each_kind_of_cluster_has_a_study_command_and_submitted_ones_request_a_gpu() -> None:
    commands = [line for line in LINES if re.search(r"\btune\b|sbatch", line)]
    assert len(commands) >= 4
    for line in commands:
        words = shlex.split(re.split(r"\btune|sclsearch\.sbatch", line)[1])
        options = {word for word in words if word.startswith("--")}
        assert {"--method", "--task"} <= options <= tune_options()
        if line.startswith("ray job submit"):
            assert {"--gpus-per-trial", "--concurrency"} <= options
            assert line.endswith("--address auto")


def test_token_commands_create_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    block = next(block for block in BLOCKS if "auth_token" in block)
    script = f'{block}\necho "$RAY_AUTH_MODE $RAY_AUTH_TOKEN_PATH"; umask'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    token = tmp_path / ".sclsearch-cluster" / "auth_token"
    mode, path, mask = done.stdout.split()
    assert (mode, path) == ("token", str(token))
    assert mask != "0077", "the umask of the shell must not change"
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.parent.stat().st_mode & 0o777 == 0o700
    assert re.fullmatch("[0-9a-f]{64}", token.read_text(encoding="utf-8"))
    assert token.read_text(encoding="utf-8") not in done.stdout + done.stderr
